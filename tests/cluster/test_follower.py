"""A follower applies the log in its order, stops where it cannot, and becomes the one writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Batch
from gateway.cluster import follower
from gateway.cluster.follower import BEHIND, TRIES, Follower, LogGap
from gateway.cluster.log import Fenced, LogUnavailable, LogWriter, Message
from gateway.cluster.records import FORM, Kind, Record, pack_batch, parts_of
from gateway.cluster.replica import Replica
from gateway.cluster.store import ReplicatedStore
from tests.cluster.logs import MemoryLog
from tests.stores.batches import new, rows_of

LONGEST = 100
"""Bytes of payload in a part: each batch has several."""


class Cluster:
    """A log, and followers that are closed in the end."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog()
        self.folder = folder
        self.replicas: list[Replica] = []
        self.fenced: list[str] = []

    def node(self, name: str) -> Follower:
        self.replicas.append(Replica.open(self.folder / f"{name}.db"))
        return Follower(self.log, self.replicas[-1], lambda: 1.0, longest=LONGEST)

    def primary(self, of: Follower, name: str = "a") -> ReplicatedStore:
        return of.take_over(name, "", "1", lambda: self.fenced.append(name))

    def append(self, *batches: Batch, epoch: int = 1) -> list[bytes]:
        """Records of a primary, as it writes them; returns their parts."""
        parts = [part for each in batches for part in parts_of(record(each, epoch), LONGEST)]
        self.log.messages += parts
        return parts


def record(batch: Batch, epoch: int = 1) -> Record:
    return Record(Kind.BATCH, epoch, batch.number, 1, pack_batch(batch))


def catch_up(node: Follower) -> None:
    node.look()
    while node.lag:
        assert node.step()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    for each in found.replicas:
        each.close()


@pytest.fixture
def node(cluster: Cluster) -> Follower:
    return cluster.node("a")


def test_a_log_that_begins_later_needs_a_snapshot(cluster: Cluster, node: Follower) -> None:
    cluster.append(new([1]), new([2], number=2))
    cluster.log.purge(3)
    with pytest.raises(LogGap, match="the log begins with 3, and this node has applied 0"):
        node.look()
    with pytest.raises(LogGap, match="the log goes on with 3, and this node has applied 0"):
        node.step()
    assert rows_of(node.replica.store) == []


def test_a_log_that_ends_before_what_is_applied_is_another_one(cluster: Cluster, node: Follower) -> None:
    cluster.append(new([1]))
    catch_up(node)
    last = cluster.log.messages.pop()
    for _ in range(2):
        for _ in range(BEHIND):
            with pytest.raises(LogUnavailable, match="the server that leads it may be behind"):
                node.look()
        cluster.log.messages.append(last)
        node.look()
        cluster.log.messages.pop()
    for _ in range(BEHIND):
        with pytest.raises(LogUnavailable):
            cluster.primary(node)
    for ask in (node.look, lambda: cluster.primary(node)):
        with pytest.raises(StoreError, match=r"have lost messages, or it is another log; stop this node .*a\.db away"):
            ask()


def _of_another_log(cluster: Cluster, folder: Path, length: int) -> None:
    """The log was deleted, and another node made it anew, with higher epochs."""
    cluster.log.messages.clear()
    other = Cluster(folder)
    other.log = cluster.log
    maker = other.node("maker")
    while len(cluster.log.messages) < length:
        other.primary(maker)
    maker.replica.close()


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("more", [0, 9])
def test_a_log_that_was_made_anew_is_told_apart(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, more: int, reopened: bool
) -> None:
    """Its epoch is higher, and it is as long as the copy, or longer."""
    old, node = cluster.node("old"), cluster.node("a")
    store = cluster.primary(old)
    for number in (1, 2, 3, 4):
        store.write(new([number], number=number))
    catch_up(node)
    length = len(cluster.log.messages) + more
    _of_another_log(cluster, tmp_path_factory.mktemp("other"), length)
    if reopened:
        cluster.replicas.pop().close()
        node = cluster.node("a")
    sentence = (
        r"message 9 of the log is not the one .* lost messages, or it is another log; stop this node .*a\.db away"
    )
    for _ in range(2):
        with pytest.raises(StoreError, match=sentence):
            node.step()
        with pytest.raises(StoreError, match=sentence):
            cluster.primary(node)
    assert rows_of(node.replica.store) == [1, 2, 3, 4]
    assert len(cluster.log.messages) == length, "it wrote to a log that it does not know"


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_log_that_lost_its_end_and_went_on_is_told_apart(cluster: Cluster, node: Follower, is_whole: bool) -> None:
    store = cluster.primary(cluster.node("b"), "b")
    store.write(new([1]))
    behind = cluster.node("c")
    catch_up(behind)
    first = len(cluster.log.messages)
    store.write(new([2], size=300, number=2))
    if not is_whole:
        cluster.log.messages.pop()
    catch_up(node)
    del cluster.log.messages[first:]
    cluster.primary(behind, "c").write(new([3], size=900))
    with pytest.raises(StoreError, match="another log"):
        catch_up(node)
    if is_whole:
        with pytest.raises(StoreError, match="another log"):
            catch_up(node)
        assert rows_of(node.replica.store) == [1, 2]
    else:  # of the record that was lost, it has applied nothing
        catch_up(node)
        assert rows_of(node.replica.store) == [1, 3]


def test_a_log_that_does_not_show_where_the_copy_ends_needs_a_snapshot(cluster: Cluster, node: Follower) -> None:
    cluster.append(new([1]), new([2], number=2))
    catch_up(node)
    cluster.log.purge(node.read)
    catch_up(node)
    cluster.append(new([3], number=3))
    cluster.log.purge(node.read + 1)
    with pytest.raises(LogGap, match=f"the log begins with {node.read + 1}, and this node has applied {node.read}"):
        node.look()


def _of_newer_form(part: bytes) -> bytes:
    return part[:3] + bytes([FORM + 1]) + part[4:]


def _damaged(part: bytes) -> bytes:
    return part[:-1] + bytes([part[-1] ^ 1])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_of_newer_form, f"records of form {FORM + 1}, and this one reads up to form {FORM}; upgrade this node"),
        (_damaged, "its checksum is wrong"),
        (lambda part: b"", "it is not a record of the gateway"),
        (lambda part: b"another program's", "it is not a record of the gateway"),
    ],
)
def test_what_cannot_be_read_is_not_passed_over(
    cluster: Cluster, node: Follower, change: Callable[[bytes], bytes], reason: str
) -> None:
    cluster.append(new([1]))
    good = len(cluster.log.messages)
    [bad] = parts_of(record(new([2], number=2)))
    cluster.log.messages.append(change(bad))
    cluster.append(new([3], number=3))
    for _ in range(2):
        with pytest.raises(StoreError, match=f"message {good + 1} of the log cannot be applied: .*{reason}"):
            catch_up(node)
    assert node.replica.sequence == good
    with pytest.raises(StoreError, match=reason):
        cluster.primary(node)
    assert rows_of(node.replica.store) == [1]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_record_in_parts_that_the_file_refused_is_applied_later(
    cluster: Cluster, node: Follower, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    parts = cluster.append(*(new([row], size=300, number=row) for row in (1, 2)))
    assert len(parts) > 4
    calls = []
    write = node.replica.store.write

    def refuse(batch: Batch, *also: object) -> None:
        calls.append(batch.number)
        if len(calls) == fails_at:
            raise StoreError("the disk is full")
        write(batch, *also)  # type: ignore[arg-type]

    monkeypatch.setattr(node.replica.store, "write", refuse)
    with pytest.raises(StoreError, match="full"):
        catch_up(node)
    catch_up(node)
    assert rows_of(node.replica.store) == [1, 2]


def test_parts_of_a_lost_writer_are_passed_over(cluster: Cluster, node: Follower) -> None:
    first = cluster.primary(cluster.node("b"), "b")
    first.write(new([1]))
    cluster.log.appends_left = 2
    with pytest.raises(LogUnavailable):
        first.write(new([2], size=300, number=2))
    cluster.log.appends_left = None
    store = cluster.primary(node)
    store.write(new([3], size=300))
    assert rows_of(node.replica.store) == [1, 3]
    third = cluster.node("c")
    catch_up(third)
    assert rows_of(third.replica.store) == [1, 3]
    assert third.replica.sequence == node.replica.sequence == len(cluster.log.messages)


class RivalLog(MemoryLog):
    """Before each append of another, its primary writes once more.

    `rival`: that one's writer; None: there is none.  `most`: so many times.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.rival: LogWriter | None = None
        self.most = most

    def append(self, data: bytes, expected: int) -> int:
        rival, self.rival = self.rival, None
        if rival is not None and self.most:
            self.most -= 1
            number = len(self.messages)
            rival.append(record(new([number], number=number)))
            self.rival = rival
        return super().append(data, expected)


@pytest.mark.parametrize("most", [1, 5, TRIES - 1])
def test_takes_over_from_a_primary_that_still_writes(cluster: Cluster, most: int) -> None:
    cluster.log = log = RivalLog(most)
    old = cluster.primary(cluster.node("a"), "a")
    log.rival = LogWriter(log, len(log.messages), LONGEST)
    node = cluster.node("b")
    store = cluster.primary(node, "b")
    log.rival = None
    assert len(rows_of(node.replica.store)) == most
    with pytest.raises(Fenced):
        old.write(new([1 << 30]))
    assert cluster.fenced == ["a"]
    store.write(new([1 << 20]))
    assert 1 << 20 in rows_of(node.replica.store)


def test_gives_up_on_a_primary_that_writes_all_the_time(cluster: Cluster) -> None:
    cluster.log = log = RivalLog(TRIES)
    cluster.primary(cluster.node("a"), "a")
    log.rival = LogWriter(log, len(log.messages), LONGEST)
    with pytest.raises(LogUnavailable, match="the old primary of the cluster still writes"):
        cluster.primary(cluster.node("b"), "b")


def test_a_server_that_lags_does_not_hold_up_for_ever(
    cluster: Cluster, node: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "PAUSE", 0.0)
    cluster.append(new([1]))
    cluster.log.lag = 1
    with pytest.raises(LogUnavailable, match="the log does not show its messages from"):
        cluster.primary(node)
    read, asked = cluster.log.read, list[int]()

    def catches_up(first: int) -> Sequence[Message]:
        asked.append(first)
        cluster.log.lag = int(len(asked) < 3)
        return read(first)

    monkeypatch.setattr(cluster.log, "read", catches_up)
    cluster.primary(node)
    assert rows_of(node.replica.store) == [1]


def test_an_epoch_that_the_file_refused_is_applied_later(
    cluster: Cluster, node: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise StoreError("the disk is full")

        patch.setattr(node.replica.store, "write", refuse)
        with pytest.raises(StoreError, match="full"):
            cluster.primary(node)
    catch_up(node)
    assert node.replica.epoch == 1
    cluster.primary(node)
    assert node.replica.epoch == 2


def test_an_epoch_whose_answer_was_lost_is_followed_by_the_next(cluster: Cluster, node: Follower) -> None:
    cluster.log.lost_answers = 1
    with pytest.raises(LogUnavailable):
        cluster.primary(node)
    assert cluster.primary(node).token == node.replica.token
    assert node.replica.epoch == 2


def test_a_primary_takes_the_shortest_way_to_the_log(cluster: Cluster, node: Follower) -> None:
    catch_up(node)
    assert not cluster.log.approached
    cluster.primary(node)
    assert cluster.log.approached == 1


def test_the_first_primary_names_the_store_for_all(cluster: Cluster, node: Follower) -> None:
    other = cluster.node("b")
    assert node.replica.token != other.replica.token
    store = cluster.primary(node)
    catch_up(other)
    assert other.replica.token == store.token
