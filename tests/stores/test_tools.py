"""check, export, import: a store is whole, and goes to another file as it is."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gateway.broker.model.changes import Batch, Container, Payload, StoredRow
from gateway.stores import SQLiteStore, StoreError, file, tools
from tests.stores.batches import content_of, contents_of, new, opened, place, rows_of, stored

HOPELESS = "Nothing of it can be saved: restore a backup"


@pytest.fixture
def closed(store: SQLiteStore, path: Path) -> Path:
    store.write(new(range(1, 2501)))
    batch = Batch(2, places={2: Container(2, "log", "/topic/ä\0", '{"a":1}')}, seen={b"\0\xff": 1e12, b"b": 2e12})
    batch.contents = {3000: Payload({"a": "ä", "b": "\n"}, "Grüße\0".encode())}
    batch.rows = {
        3001: StoredRow(3001, 1, 3000, 0, 7, facts='{"x":"\\n"}'),
        3002: StoredRow(3002, 2, 3000, 9, 8),
        3003: StoredRow(3003, 2, 3000, 9, 8, transient=True),
    }
    store.write(batch)
    store.close(clean=True)
    return path


def lines_of(path: Path) -> list[str]:
    lines = io.StringIO()
    assert tools.export(path, lines) == []
    return lines.getvalue().splitlines()


class TestCheck:
    def test_of_a_store_that_is_well(self, closed: Path) -> None:
        assert tools.check(closed) == []

    @pytest.mark.parametrize(
        ("harm", "findings"),
        [
            ("DELETE FROM places WHERE place = 2", ["1 messages stand in a place that is missing"]),
            ("DELETE FROM contents WHERE content < 3", ["2 messages have no content"]),
            ("INSERT INTO contents VALUES (9999, '{}', x'')", ["1 contents belong to no message"]),
            ("DELETE FROM store", ["1 rows are missing in the table `store`"]),
        ],
    )
    def test_of_what_does_not_belong_together(self, closed: Path, harm: str, findings: list[str]) -> None:
        store = opened(closed)
        store._sql(harm)
        store.close(clean=False)
        assert tools.check(closed) == findings

    @pytest.mark.parametrize(
        ("harm", "finding"),
        [
            ("UPDATE contents SET headers = '{' WHERE content = 7", "contents: number 7 is damaged: Expecting"),
            ("UPDATE contents SET body = 5 WHERE content = 7", "contents: number 7 is damaged"),
            ("UPDATE rows SET facts = x'ff' WHERE row = 7", "rows: number 7 is damaged"),
            ("UPDATE seen SET digest = 5", "seen: de-duplication ids are damaged: "),
        ],
    )
    def test_of_what_is_something_else(self, closed: Path, harm: str, finding: str) -> None:
        store = opened(closed)
        store._sql(harm)
        store.close(clean=False)
        found = tools.check(closed)
        assert found[0].startswith(finding)
        # What has lost one half of it has lost the other.
        assert found[1:] in ([], ["1 messages have no content"], ["1 contents belong to no message"])

    def test_of_a_file_that_is_none(self, path: Path) -> None:
        path.write_text("nonsense" * 1000)
        assert tools.check(path) == [f"{path} is damaged: file is not a database.  {HOPELESS}"]


class TestExport:
    def test_is_lines_of_json(self, closed: Path) -> None:
        lines = [json.loads(line) for line in lines_of(closed)]
        assert lines[0]["store"]
        assert lines[0]["clean"] == 1
        assert {"place": 2, "kind": "log", "name": "/topic/ä\0", "facts": '{"a":1}'} in lines
        assert {"content": 3000, "headers": {"a": "ä", "b": "\n"}, "body": "Grüße\0"} in lines
        assert {
            "row": 3001, "place": 1, "content": 3000, "rank": 0, "size": 7, "transient": 0, "facts": '{"x":"\\n"}'
        } in lines  # fmt: skip
        assert {"seen": "00ff", "until": 1e12} in lines
        assert [line["base64"] for line in lines if line.get("content") == 1 and "row" not in line] == [
            "/zEg/zEg/zEg/zEg/zEg/zEg/zE="
        ]
        assert len(lines) == 1 + 2 + 2501 + 2503 + 2

    @pytest.mark.parametrize("cut", [file.PAGE // 2, file.PAGE, 2 * file.PAGE])
    def test_of_a_file_that_is_cut_off(self, closed: Path, tmp_path: Path, cut: int) -> None:
        closed.write_bytes(closed.read_bytes()[:-cut])
        assert tools.check(closed)[0].startswith(f"{closed}: ")
        lines = io.StringIO()
        assert tools.export(closed, lines)
        assert lines.getvalue().count("\n") > 4000
        tools.import_(tmp_path / "new.db", lines.getvalue().splitlines())
        assert tools.check(tmp_path / "new.db") == []

    def test_changes_nothing(self, closed: Path) -> None:
        before = closed.read_bytes()
        lines_of(closed)
        assert closed.read_bytes() == before
        assert list(closed.parent.iterdir()) == [closed]


class TestImport:
    def test_brings_all_back(self, closed: Path, tmp_path: Path) -> None:
        other = tmp_path / "other.db"
        lines = lines_of(closed)
        assert tools.import_(other, lines) == []
        assert lines_of(other)[1:] == lines[1:]
        assert tools.check(other) == []
        old, new_one = opened(closed), opened(other)
        before, after = old.load(), new_one.load()
        assert old.token == new_one.token
        assert after.highest >= before.highest
        assert (list(after.rows), after.places, after.seen) == (list(before.rows), before.places, before.seen)
        assert (after.clean, before.clean) == (True, True)
        for each in (old, new_one):
            each.close(clean=True)

    def test_remembers_how_the_store_was_left(self, closed: Path, tmp_path: Path) -> None:
        opened(closed).close(clean=False)
        tools.import_(tmp_path / "other.db", lines_of(closed))
        store = opened(tmp_path / "other.db")
        assert not store.load().clean
        store.close(clean=True)

    def test_leaves_out_what_is_not_whole(self, tmp_path: Path) -> None:
        lines = [
            '{"place": 1, "kind": "queue", "name": "/queue/1", "facts": "{}"}',
            '{"row": 1, "place": 1, "content": 1, "rank": 5, "size": 320, "facts": null}',
            json.dumps({"content": 1, "headers": content_of(1).headers, "base64": "/zEg/zEg/zEg/zEg/zEg/zEg/zE="}),
            '{"row": 2, "place": 2, "content": 2, "rank": 5, "size": 320, "facts": null}',
            '{"content": 2, "headers": {}, "body": ""}',
            '{"row": 3, "place": 1, "content": 3, "rank": 5, "size": 320, "facts": null}',
            '{"content": 4, "headers": {}, "body": ""}',
        ]
        assert tools.import_(tmp_path / "a.db", lines) == [
            "1 messages were left out: their place is missing",
            "1 messages were left out: their content is missing",
            "1 contents were left out: no message has them",
        ]
        store = opened(tmp_path / "a.db")
        assert store.read([1]) == [stored(1)]
        assert rows_of(store) == contents_of(store) == [1]
        assert store.load().places == [place(1)]
        store.close(clean=True)

    @pytest.mark.parametrize(
        "line",
        [
            "nonsense",
            "[]",
            '{"row": 1}',
            '{"content": 1, "headers": {}, "base64": "/"}',
            '{"place": 1, "row": 2, "colour": 3}',
            '{"seen": "x", "until": 1}',
        ],
    )
    def test_of_other_lines(self, tmp_path: Path, line: str) -> None:
        good = '{"content": 1, "headers": {}, "body": ""}'
        with pytest.raises(StoreError, match=r"^line 2 is not a line of an export: "):
            tools.import_(tmp_path / "a.db", [good, line])
        assert not list(tmp_path.iterdir())

    def test_of_nothing(self, tmp_path: Path) -> None:
        """What is left of an export that failed, in a pipe."""
        with pytest.raises(StoreError, match=r"^there is nothing to import: "):
            tools.import_(tmp_path / "a.db", [])
        assert not list(tmp_path.iterdir())

    def test_makes_a_new_store_only(self, closed: Path) -> None:
        before = closed.read_bytes()
        with pytest.raises(StoreError, match="is there already: an import makes a new store"):
            tools.import_(closed, [])
        assert closed.read_bytes() == before
