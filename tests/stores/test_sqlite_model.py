"""Random batches against the plainest store there is: after each, rows and contents are those that must be there."""

from __future__ import annotations

import random

import pytest

from gateway.broker.model.changes import Batch, Container, StoredRow
from gateway.stores import SQLiteStore
from tests.stores.batches import content_of, contents_of, place

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
