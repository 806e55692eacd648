"""De-duplication: the window, its bound, and what counts as the same message."""

from __future__ import annotations

import pytest

from gateway.broker.routing.dedup import DedupIds

from ..client import Scene
from ..conftest import Stage

X = {"dedup-id": "x"}


def test_an_id_is_known_at_its_destination_within_its_window() -> None:
    ids = DedupIds(10.0, 100)
    asked = [
        *(("/queue/a", "1", 0.0, True), ("/queue/a", "1", 9.9, False)),  # the window does not grow
        *(("/queue/b", "1", 9.9, True), ("/queue/a", "2", 9.9, True)),
        *(("/queue/a", "1", 10.0, True), ("/queue/a", "1", 19.9, False)),
        *(("ab", "c", 19.9, True), ("a", "bc", 19.9, True), ("abc", "", 19.9, True)),  # the two do not run together
    ]
    assert [ids.is_new(name, id, now) for name, id, now, _ in asked] == [expected for *_, expected in asked]
    assert [len(key) for share in ids._shares for key in share] == [16] * len(ids)  # however long they are
    off = DedupIds(0.0, 100)
    assert all(off.is_new("a", "1", 0.0) for _ in range(3))
    assert len(off) == 0


def test_what_is_behind_the_window_is_forgotten() -> None:
    ids = DedupIds(10.0, 100)
    for number in range(50):
        ids.is_new("a", str(number), number / 10)
    assert len(ids) == 50
    ids.is_new("a", "x", 12.0)
    assert len(ids) == 30


def test_the_oldest_goes_for_a_new_one_only() -> None:
    ids = DedupIds(10.0, 3)
    assert all(ids.is_new("a", str(number), 0.0) for number in range(4))
    assert len(ids) == 3
    assert not any(ids.is_new("a", "3", 0.0) for _ in range(5))
    assert not ids.is_new("a", "1", 0.0)
    assert ids.is_new("a", "0", 0.0)


class TestShares:
    """Names meet in one share by chance, in each process other ones; so these are chosen."""

    @pytest.fixture
    def names(self) -> list[str]:
        found: dict[int, str] = {}
        shares = len(DedupIds(10.0, 100)._shares)
        for number in range(1_000):
            found.setdefault(hash(f"/queue/{number}") % shares, f"/queue/{number}")
        return list(found.values())

    def test_a_flood_at_one_destination_pushes_out_its_own(self, names: list[str]) -> None:
        ids = DedupIds(10.0, 100)
        flooded, *others = names[:4]
        for number in range(20):
            assert all(ids.is_new(name, str(number), 0.0) for name in others)
        assert all(ids.is_new(flooded, str(number), 1.0) for number in range(1_000))
        assert len(ids) == 100
        assert not any(ids.is_new(name, str(number), 2.0) for name in others for number in range(20))
        assert not any(ids.is_new(flooded, str(number), 2.0) for number in range(960, 1_000))
        assert ids.is_new(flooded, "959", 2.0)

    def test_a_flood_at_many_destinations_leaves_equal_shares(self, names: list[str]) -> None:
        two = DedupIds(10.0, 100)
        for name, count in ((names[0], 100), (names[1], 200)):
            for number in range(count):
                two.is_new(name, str(number), 0.0)
        assert sorted(len(share) for share in two._shares)[-3:] in ([0, 50, 50], [0, 49, 51])
        many = DedupIds(10.0, 100)
        for number in range(3_000):
            many.is_new(names[number % len(names)], str(number), 0.0)
        assert len(many) == 100
        assert max(len(share) for share in many._shares) <= 3

    def test_a_new_id_never_goes_itself(self, names: list[str]) -> None:
        ids = DedupIds(10.0, 1)
        for name in names:
            assert ids.is_new(name, "1", 0.0)
            assert not ids.is_new(name, "1", 0.0)
        assert len(ids) == 1


@pytest.mark.parametrize("header", ["dedup-id", "_AMQ_DUPL_ID"])
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_a_duplicate_has_its_receipt_and_goes_nowhere(scene: Scene, header: str, destination: str) -> None:
    client, other = scene.connect(), scene.connect()
    client.subscribe(destination)
    for sender, body in ((client, b"1"), (client, b"2"), (other, b"3")):
        sender.publish(destination, body, receipt="r", **{header: "x"})
    frames = client.received()
    assert [frame.command for frame in frames] == ["MESSAGE", "RECEIPT", "RECEIPT"]
    assert frames[0].body == b"1"
    assert header not in frames[0].headers
    assert other.receipts() == ["r"]
    client.publish(destination.replace("/queue/", "/amq/queue/"), b"4", **{header: "x"})  # consumed, and an alias
    assert not client.received()
    counters = scene.broker.counters
    assert (counters.published, counters.duplicates) == (1, 3)


@pytest.mark.parametrize(
    ("quotas", "steps", "expected"),
    [
        ({"dedup_window": 2.0}, [("x", 1.9), ("x", 0.2), ("x", 0)], [b"0", b"2"]),
        ({"dedup_window": 0.0}, [("x", 0), ("x", 0)], [b"0", b"1"]),
        ({"max_dedup_ids": 2}, [("1", 0), ("2", 0), ("3", 0), ("1", 0), ("3", 0)], [b"0", b"1", b"2", b"3"]),
    ],
    ids=["window", "switched off", "most"],
)
def test_the_settings_count(
    stage: Stage, quotas: dict[str, float], steps: list[tuple[str, float]], expected: list[bytes]
) -> None:
    scene = stage(**quotas)
    client = scene.connect()
    client.subscribe("a")
    for number, (id, pause) in enumerate(steps):
        client.publish("a", b"%d" % number, **{"dedup-id": id})
        scene.wait(pause)
    assert client.bodies() == expected


def test_in_a_transaction_it_counts_at_commit(scene: Scene) -> None:
    client, other = scene.connect(), scene.connect()
    client.subscribe("a")
    client.begin("undone")
    client.publish("a", b"undone", transaction="undone", **X)
    client.abort("undone")
    client.begin()
    for body in (b"late", b"later"):
        client.publish("a", body, transaction="t", **X)
    other.publish("a", b"first", **X)
    client.commit()
    assert client.bodies() == [b"first"]
    assert scene.broker.counters.duplicates == 2
    assert scene.broker.memory.used == 0


def test_of_what_is_not_durable_nothing_is_stored() -> None:
    scene = Scene({"/queue/b": {"durable": False}}, stored=True)
    client = scene.connect()
    for name in ("/queue/a", "/queue/b"):
        client.publish(name, b"m", persistent="true", **{"dedup-id": "1"})
    scene.commit()
    assert len(scene.store.seen) == 1
    for name in ("/queue/a", "/queue/b"):
        client.subscribe(name, id=name)
    scene.finish()
