"""What is written comes back, and what is taken out does not; random batches are compared with the plainest store."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch, Container, Payload, StoredRow
from gateway.stores import SQLiteStore, StoreDamaged, sqlite
from tests.stores.batches import content_of, contents_of, new, opened, place, rows_of, stored


class TestMessages:
    def test_in_the_order_asked_without_those_that_are_not_there(self, store: SQLiteStore) -> None:
        store.write(new([1, 2, 3]))
        assert store.read([9, 3, 1, 8]) == [stored(3), stored(1)]
        assert store.read([]) == []

    @pytest.mark.parametrize("count", [1, 127, 128, 129, 300, 1000])
    def test_in_any_number(self, store: SQLiteStore, count: int) -> None:
        rows = list(range(1, count + 1))
        store.write(new(rows))
        assert store.read(rows) == [stored(row) for row in rows]
        assert rows_of(store) == rows

    @pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 1_000_000])
    def test_of_any_size(self, store: SQLiteStore, size: int) -> None:
        store.write(new([1, 2], size=size))
        assert store.read([1, 2]) == [stored(1, size=size), stored(2, size=size)]

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"": ""},
            {"a": "},\n{", "b": "}", "c": '"\\'},
            {"a": "\0\x1f\x7f\n\r\t"},
            {"grüße": "\U0001f600 \ud800"},  # the broker has no lone surrogates; here they would do no harm
        ],
    )
    def test_with_any_headers(self, store: SQLiteStore, headers: dict[str, str]) -> None:
        batch = new([1, 2, 3])
        batch.contents[2] = Payload(headers, b"")
        store.write(batch)
        assert [each.content.headers for each in store.read([1, 2, 3])] == [
            content_of(1).headers,
            headers,
            content_of(3).headers,
        ]

    def test_have_facts(self, store: SQLiteStore, path: Path) -> None:
        batch = new([1, 2, 3])
        batch.rows[1] = batch.rows[1]._replace(facts='{"a":"ä\\u0000"}')
        store.write(batch)
        store.write(Batch(2, facts={2: '{"b":2}', 99: "{}"}))
        assert [row.facts for row in store.load().rows] == ['{"a":"ä\\u0000"}', '{"b":2}', None]
        assert [each.row.facts for each in store.read([1, 2, 3])] == ['{"a":"ä\\u0000"}', '{"b":2}', None]

    def test_may_take_the_row_of_another(self, store: SQLiteStore) -> None:
        """A message of a queue that conflates takes the place of the one it replaces."""
        store.write(new([1, 2]))
        batch = Batch(2, gone=[1], rows={1: StoredRow(1, 1, 3, 5, 320)}, contents={3: content_of(3)})
        store.write(batch)
        assert contents_of(store) == [2, 3]
        assert store.read([1])[0].content == content_of(3)


class TestPlaces:
    def test_that_were_there_before_are_dropped_with_their_rows(self, store: SQLiteStore, path: Path) -> None:
        store.write(new([1], into=1))
        store.write(new([2], into=2))
        store.close(clean=True)
        store = opened(path)
        store.write(Batch(1, dropped=[1]))
        assert rows_of(store) == contents_of(store) == [2]
        store.close(clean=True)


class TestDeduplication:
    def test_ids_count_until_their_time(self, path: Path) -> None:
        now = 100.0
        store = SQLiteStore.open(path, clock=lambda: now)
        store.write(Batch(1, seen={b"a": 110.0, b"b": 120.5}))
        store.write(Batch(2, seen={b"a": 130.0}))
        assert store.load().seen == {b"a": 130.0, b"b": 120.5}
        now = 120.5
        assert store.load().seen == {b"a": 130.0}
        store.close(clean=True)

    def test_old_ids_go_when_new_ones_come(self, path: Path) -> None:
        now = 100.0
        store = SQLiteStore.open(path, clock=lambda: now)
        for _ in range(10):
            store.write(Batch(1, seen={b"%f" % now: now + 2}))
            now += 1
        assert store._sql("SELECT count(*) FROM seen").fetchone() == (2,)
        store.close(clean=True)


class TestStart:
    def test_of_a_new_store(self, store: SQLiteStore) -> None:
        found = store.load()
        assert store.is_new
        assert (found.places, list(found.rows), found.highest, found.seen, found.clean) == ([], [], 0, {}, True)

    def test_after_a_stop(self, store: SQLiteStore, path: Path) -> None:
        store.write(new([1, 2, 3]))
        token = store.token
        store.close(clean=True)
        store = opened(path)
        found = store.load()
        assert (found.places, [row.row for row in found.rows], found.clean) == ([place(1)], [1, 2, 3], True)
        assert store.token == token
        assert not store.is_new
        store.close(clean=True)

    def test_numbers_are_not_given_twice(self, store: SQLiteStore, path: Path) -> None:
        highest = 0
        for clean in (True, False, True):
            store.write(new([highest + 1, highest + 5]))
            store.write(Batch(2, gone=[highest + 1, highest + 5]))
            store.close(clean=clean)
            store = opened(path)
            found = store.load().highest
            assert highest + 5 <= found <= highest + 5 + sqlite.AHEAD
            highest = found
        store.close(clean=True)

    def test_the_number_is_written_seldom(self, store: SQLiteStore) -> None:
        asked: list[str] = []
        store._connection.set_trace_callback(asked.append)
        for row in range(1, 100):
            store.write(new([row]))
        assert len([each for each in asked if each.startswith("UPDATE store")]) == 1

    def test_a_row_that_stands_nowhere(self, store: SQLiteStore) -> None:
        store.write(Batch(1, rows={5: StoredRow(5, 3, 5, 5, 300)}, contents={5: content_of(5)}))
        with pytest.raises(StoreDamaged, match="message 5 stands in place 3, which is missing"):
            store.load()


class TestTransientRows:
    def test_are_gone_with_it(self, store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite, "STALE_PER_SLICE", 10)
        store.write(new(range(1, 26), transient=True))
        store.write(new(range(26, 31)))
        store.close(clean=True)
        store = opened(path)
        assert rows_of(store) == list(range(26, 31))
        store.write(new([31], transient=True))
        more = 0
        while store.tidy():
            more += 1
        assert more == 3
        assert contents_of(store) == list(range(26, 32))
        store.close(clean=True)

    def test_leave_what_they_share(self, store: SQLiteStore, path: Path) -> None:
        batch = Batch(1, places={1: place(1)}, contents={10: content_of(10)})
        batch.rows = {11: StoredRow(11, 1, 10, 5, 320), 12: StoredRow(12, 1, 10, 5, 320, transient=True)}
        store.write(batch)
        store.close(clean=True)
        store = opened(path)
        assert rows_of(store) == [11]
        while store.tidy():
            pass
        assert contents_of(store) == [10]
        store.close(clean=True)


BATCHES = 30


class Model:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.places: dict[int, Container] = {}
        self.rows: dict[int, StoredRow] = {}
        self.next = 1

    def batch(self, number: int) -> Batch:
        """The next batch, carried out here."""
        chance, batch = self.chance, Batch(number)
        for into in {chance.randint(1, 5) for _ in range(3)}:
            self.places[into] = batch.places[into] = place(into, f'{{"n":{number}}}')
        for _ in range(chance.randrange(40)):
            self.add(batch)
        for row in chance.sample(sorted(self.rows), chance.randrange(len(self.rows) + 1) // 2):
            del self.rows[row]
            batch.gone.append(row)
        for row in chance.sample(sorted(self.rows), len(self.rows) // 4):
            batch.facts[row] = f'{{"n":{number}}}'
        self.rows |= {row: each._replace(row=row) for row, each in batch.rows.items()}
        for row, facts in batch.facts.items():
            self.rows[row] = self.rows[row]._replace(facts=facts)
        for list_, share in ((batch.emptied, 0.2), (batch.dropped, 0.1)):
            if chance.random() < share:
                list_.append(chance.choice(sorted(self.places)))
        for each in batch.emptied + batch.dropped:
            self.rows = {row: known for row, known in self.rows.items() if known.place != each}
        for each in batch.dropped:
            del self.places[each]
        return batch

    def add(self, batch: Batch) -> None:
        """A message with its own content, or one for several places; now and then it shares that of an older one."""
        content = self.next
        self.next += 1
        if self.chance.random() < 0.5:
            batch.contents[content] = content_of(content)
            batch.rows[content] = StoredRow(content, self.chance.choice(sorted(self.places)), content, 5, 320)
            return
        older = [row.content for row in self.rows.values()]
        if older and self.chance.random() < 0.2:
            content = self.chance.choice(older)
        else:
            batch.contents[content] = content_of(content)
        for into in self.chance.sample(sorted(self.places), self.chance.choice([1, 1, 1, min(3, len(self.places))])):
            row, self.next = self.next, self.next + 1
            batch.rows[row] = StoredRow(row, into, content, self.chance.randrange(10), 320)

    @property
    def contents(self) -> list[int]:
        return sorted({row.content for row in self.rows.values()})


@pytest.mark.parametrize("seed", range(4))
def test_random_batches(store: SQLiteStore, seed: int) -> None:
    model = Model(seed)
    for number in range(1, BATCHES + 1):
        store.write(model.batch(number))
        found = store.load()
        assert list(found.rows) == [row for _, row in sorted(model.rows.items())]
        assert found.places == [each for _, each in sorted(model.places.items())]
        assert contents_of(store) == model.contents
        some = model.chance.sample(sorted(model.rows), len(model.rows) // 2)
        assert [(each.row, each.content) for each in store.read(some)] == [
            (model.rows[row], content_of(model.rows[row].content)) for row in some
        ]
    assert model.next > 200
