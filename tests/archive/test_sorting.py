"""Sorting in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.archive import sorting
from gateway.archive.schema import SCHEMA, aligned
from gateway.archive.sorting import ordered

Key = tuple[str | None, int, int]

KEYS = st.tuples(st.sampled_from([None, "", "/a", "/b", "/b/c"]), st.integers(0, 3), st.integers(0, 3))


def table(keys: list[Key], body: int = 0) -> pa.Table:
    columns = {
        "gateway": ["g"] * len(keys),
        "epoch": [1] * len(keys),
        "seq": pa.array([seq for _, _, seq in keys], pa.int64()),
        "ts": pa.array([ts for _, ts, _ in keys], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "event": ["accepted"] * len(keys),
        "destination": pa.array([destination for destination, _, _ in keys], pa.string()),
        "body": pa.array([bytes(body)] * len(keys), pa.binary()),
    }
    return aligned(pa.table(columns))


def keys_of(tables: list[pa.Table]) -> list[Key]:
    whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    columns = (whole["destination"], whole["ts"].cast(pa.int64()), whole["seq"])
    return list(zip(*[column.to_pylist() for column in columns], strict=True))


def shape(key: Key) -> tuple[str, int, int]:
    return key[0] or "", key[1], key[2]


def sort_all(folder: Path, tables: list[pa.Table], steps: list[str] | None = None) -> list[pa.Table]:
    steps = [] if steps is None else steps
    found = list(ordered(tables, folder, steps.append))
    assert list(folder.iterdir()) == []
    return found


@given(
    st.lists(st.lists(KEYS, min_size=1, max_size=12), max_size=6),
    st.integers(1, 4000),
    st.integers(1, 1000),
    st.integers(2, 3),
)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[list[Key]], run: int, chunk: int, fan: int
) -> None:
    """However many runs and chunks they are, and however many are equal."""
    monkeypatch.setattr(sorting, "RUN", run)
    monkeypatch.setattr(sorting, "CHUNK", chunk)
    monkeypatch.setattr(sorting, "FAN", fan)
    found = keys_of(sort_all(tmp_path, [table(each) for each in keys]))
    everything = [key for each in keys for key in each]
    assert [shape(key) for key in found] == sorted([shape(key) for key in everything])
    assert sorted(map(repr, found)) == sorted(map(repr, everything))


def test_large_rows_that_stand_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A destination with large bodies beside one with many small rows: chunks are as large as any others."""
    monkeypatch.setattr(sorting, "RUN", 200_000)
    monkeypatch.setattr(sorting, "CHUNK", 10_000)
    small: list[Key] = [("/b", number, 0) for number in range(1000)]
    large: list[Key] = [("/a", number, 0) for number in range(30)]
    tables = [each for _ in range(4) for each in (table(small), table(large, body=4000))]
    steps: list[str] = []
    found = sort_all(tmp_path, tables, steps)
    assert steps.count("run spilled") > 2
    assert sum(len(each) for each in found) == 4 * 1030
    assert max([each.nbytes for each in found]) <= 4 * 10_000
    alone = sort_all(tmp_path, [table(small[:10]), table(large, body=4000)])
    assert max([each.nbytes for each in alone]) <= 10_000


def test_leftovers_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that stops early leaves no files."""
    monkeypatch.setattr(sorting, "RUN", 1)
    rows = ordered([table([("/a", 1, 1)]), table([("/a", 2, 2)])], tmp_path, lambda _: None)
    next(rows)
    assert len(list(tmp_path.iterdir())) == 2
    del rows
    assert list(tmp_path.iterdir()) == []
