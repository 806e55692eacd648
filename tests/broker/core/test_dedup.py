"""De-duplication: the window, its bound, and what counts as the same message."""

from __future__ import annotations

import pytest

from gateway.broker.core.dedup import _SHARES, DedupIds
from gateway.codec import Version

from ..client import Scene
from ..conftest import Stage


class TestIds:
    def test_the_second_is_known_at_its_destination_only(self) -> None:
        ids = DedupIds(10.0, 100)
        assert ids.is_new("/queue/a", "1", 0.0)
        assert not ids.is_new("/queue/a", "1", 0.0)
        assert ids.is_new("/queue/b", "1", 0.0)
        assert ids.is_new("/queue/a", "2", 0.0)
        assert len(ids) == 3

    def test_the_window_begins_with_the_first_and_does_not_grow(self) -> None:
        ids = DedupIds(10.0, 100)
        assert ids.is_new("a", "1", 0.0)
        assert not ids.is_new("a", "1", 9.9)
        assert ids.is_new("a", "1", 10.0)
        assert not ids.is_new("a", "1", 19.9)

    def test_what_is_behind_the_window_is_forgotten(self) -> None:
        ids = DedupIds(10.0, 100)
        for number in range(50):
            ids.is_new("a", str(number), number / 10)
        assert len(ids) == 50
        ids.is_new("a", "x", 12.0)
        assert len(ids) == 30

    def test_the_oldest_goes_where_there_are_too_many(self) -> None:
        ids = DedupIds(10.0, 3)
        for number in range(4):
            assert ids.is_new("a", str(number), 0.0)
        assert len(ids) == 3
        assert not ids.is_new("a", "1", 0.0)
        assert ids.is_new("a", "0", 0.0)

    def test_one_that_is_known_pushes_nobody_out(self) -> None:
        ids = DedupIds(10.0, 2)
        assert ids.is_new("a", "1", 0.0)
        assert ids.is_new("a", "2", 0.0)
        for _ in range(5):
            assert not ids.is_new("a", "2", 0.0)
        assert not ids.is_new("a", "1", 0.0)

    def test_without_a_window_nothing_is_remembered(self) -> None:
        ids = DedupIds(0.0, 100)
        assert all(ids.is_new("a", "1", 0.0) for _ in range(3))
        assert len(ids) == 0

    def test_destination_and_id_do_not_run_together(self) -> None:
        ids = DedupIds(10.0, 100)
        assert ids.is_new("ab", "c", 0.0)
        assert ids.is_new("a", "bc", 0.0)
        assert ids.is_new("abc", "", 0.0)

    def test_a_long_id_costs_no_more_than_a_short_one(self) -> None:
        ids = DedupIds(10.0, 100)
        ids.is_new("a" * 10_000, "ü" * 1_000, 0.0)
        assert [len(key) for share in ids._shares for key in share] == [16]


class TestShares:
    """Names meet in one share by chance, in each process other ones; so these are chosen."""

    @pytest.fixture
    def names(self) -> list[str]:
        found: dict[int, str] = {}
        for number in range(1_000):
            found.setdefault(hash(f"/queue/{number}") % _SHARES, f"/queue/{number}")
        return list(found.values())

    def test_a_flood_at_one_destination_pushes_out_its_own(self, names: list[str]) -> None:
        ids = DedupIds(10.0, 100)
        flooded, *others = names[:4]
        for number in range(20):
            assert all(ids.is_new(name, str(number), 0.0) for name in others)
        for number in range(1_000):
            assert ids.is_new(flooded, str(number), 1.0)
        assert len(ids) == 100
        assert not any(ids.is_new(name, str(number), 2.0) for name in others for number in range(20))
        assert not any(ids.is_new(flooded, str(number), 2.0) for number in range(960, 1_000))
        assert ids.is_new(flooded, "959", 2.0)

    def test_who_has_most_gives_to_who_comes(self, names: list[str]) -> None:
        ids = DedupIds(10.0, 100)
        for number in range(100):
            ids.is_new(names[0], str(number), 0.0)
        for number in range(200):
            ids.is_new(names[1], str(number), 0.0)
        assert sorted(len(share) for share in ids._shares)[-3:] in ([0, 50, 50], [0, 49, 51])

    def test_who_floods_many_pushes_out_all(self, names: list[str]) -> None:
        ids = DedupIds(10.0, 100)
        for number in range(3_000):
            ids.is_new(names[number % len(names)], str(number), 0.0)
        assert len(ids) == 100
        assert max(len(share) for share in ids._shares) <= 3

    def test_one_that_comes_is_never_the_one_that_goes(self, names: list[str]) -> None:
        ids = DedupIds(10.0, 1)
        for name in names:
            assert ids.is_new(name, "1", 0.0)
            assert not ids.is_new(name, "1", 0.0)
        assert len(ids) == 1

    def test_what_is_behind_the_window_goes_wherever_it_is(self, names: list[str]) -> None:
        ids = DedupIds(10.0, 1_000)
        for name in names:
            ids.is_new(name, "1", 0.0)
        assert len(ids) == len(names)
        for number in range(_SHARES):
            ids.is_new(names[0], str(number), 20.0)
        assert len(ids) == _SHARES


@pytest.mark.parametrize("header", ["dedup-id", "_AMQ_DUPL_ID"])
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_a_duplicate_has_its_receipt_and_goes_nowhere(
    scene: Scene, version: Version, header: str, destination: str
) -> None:
    client, other = scene.connect(version), scene.connect(version)
    client.subscribe(destination)
    for sender, body in ((client, b"1"), (client, b"2"), (other, b"3")):
        sender.publish(destination, body, receipt="r", **{header: "x"})
    frames = client.received()
    assert [frame.command for frame in frames] == ["MESSAGE", "RECEIPT", "RECEIPT"]
    assert frames[0].body == b"1"
    assert header not in frames[0].headers
    assert other.receipts() == ["r"]
    counters = scene.broker.counters
    assert (counters.published, counters.duplicates) == (1, 2)


def test_after_the_window_it_is_new(stage: Stage, version: Version) -> None:
    scene = stage(dedup_window=2.0)
    client = scene.connect(version)
    client.subscribe("a")
    client.publish("a", b"1", **{"dedup-id": "x"})
    scene.wait(1.9)
    client.publish("a", b"2", **{"dedup-id": "x"})
    scene.wait(0.2)
    client.publish("a", b"3", **{"dedup-id": "x"})
    assert client.bodies() == [b"1", b"3"]


def test_consumed_or_not(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.publish("a", b"1", **{"dedup-id": "x"})
    client.subscribe("a")
    assert client.bodies() == [b"1"]
    client.publish("/amq/queue/a", b"2", **{"dedup-id": "x"})
    assert not client.received()


def test_there_are_only_so_many(stage: Stage, version: Version) -> None:
    scene = stage(max_dedup_ids=2)
    client = scene.connect(version)
    client.subscribe("a")
    for id in "12313":
        client.publish("a", id.encode(), **{"dedup-id": id})
    assert client.bodies() == [b"1", b"2", b"3", b"1"]


def test_switched_off(stage: Stage, version: Version) -> None:
    scene = stage(dedup_window=0.0)
    client = scene.connect(version)
    client.subscribe("a")
    for _ in range(2):
        client.publish("a", b"m", **{"dedup-id": "x"})
    assert len(client.messages()) == 2


class TestInATransaction:
    def test_it_counts_at_commit(self, scene: Scene, version: Version) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("a")
        client.begin()
        client.publish("a", b"late", transaction="t", **{"dedup-id": "x"})
        other.publish("a", b"first", **{"dedup-id": "x"})
        client.commit()
        assert client.bodies() == [b"first"]
        assert scene.broker.counters.duplicates == 1

    def test_what_was_undone_was_never_sent(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("a")
        client.begin()
        client.publish("a", b"undone", transaction="t", **{"dedup-id": "x"})
        client.abort()
        client.publish("a", b"m", **{"dedup-id": "x"})
        assert client.bodies() == [b"m"]

    def test_two_in_one(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("a")
        client.begin()
        for body in (b"1", b"2"):
            client.publish("a", body, transaction="t", **{"dedup-id": "x"})
        client.commit()
        assert client.bodies() == [b"1"]
        assert scene.broker.memory.used == 0


class TestSeveralDestinations:
    def test_each_has_its_own(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for id, name in enumerate("abc"):
            client.subscribe(name, str(id))
        client.publish("a,b", b"1", **{"dedup-id": "x"})
        client.publish("b,c", b"2", **{"dedup-id": "x"})
        assert [(each.headers["destination"], each.body) for each in client.messages()] == [
            ("a", b"1"),
            ("b", b"1"),
            ("c", b"2"),
        ]
        assert scene.broker.counters.duplicates == 1

    def test_one_of_them_twice(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("a")
        client.publish("a,/queue/a", b"m", **{"dedup-id": "x"})
        assert len(client.messages()) == 1

    def test_all_known(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("a")
        for _ in range(2):
            client.publish("a", b"m", **{"dedup-id": "x", "x-delay": "100"})
        assert len(scene.broker.router.delayed) == 1
        scene.wait(0.2)
        assert len(client.messages()) == 1


def test_one_that_is_still_delayed_is_known(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.subscribe("a")
    client.publish("a", b"1", **{"dedup-id": "x", "x-delay": "1000"})
    client.publish("a", b"2", **{"dedup-id": "x"})
    scene.wait(1.1)
    assert client.bodies() == [b"1"]


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
