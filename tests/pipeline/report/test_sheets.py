"""The CSV files."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from gateway.pipeline.report import sheets
from gateway.pipeline.report.figures import DestinationFigures
from tests.pipeline.report import made


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_files_have_the_figures(tmp_path: Path) -> None:
    report = made.day()
    files = {path.stem: read(path) for path in sheets.csv(report, tmp_path / "new")}
    assert {path.stem for path in (tmp_path / "new").iterdir()} == set(files)

    totals = {row["figure"]: row["value"] for row in files["totals"]}
    assert totals["accepted"] == str(report.total("accepted"))
    assert totals["missing_rows"] == "18630"
    assert totals["destinations"] == "252"
    for event in ("accepted", "delivered", "acked", "dead_lettered"):
        assert sum([int(row[event]) for row in files["traffic"]]) == report.total(event)
    assert files["traffic"][1]["start"] == "2026-11-20T00:15:00Z"
    queue = [row for row in files["latency"] if row["kind"] == "queue"]
    assert sum([int(row["count"]) for row in queue]) == sum(report.whole.queue.values())
    assert all(float(row["from_us"]) < float(row["to_us"]) for row in queue)
    assert [row["destination"] for row in files["destinations"]] == [each.name for each in report.destinations]
    assert len(files["dead_letters"]) == 5
    assert [row["kind"] for row in files["consumers"]] == ["stuck", "slow"]
    assert files["consumers"][0]["cleared"] == ""
    assert len(files["reasons"]) == len(report.reasons)
    assert sum([int(row["rows"]) for row in files["gaps"]]) == 18_630


def test_an_empty_span_has_files_with_headings(tmp_path: Path) -> None:
    files = {path.stem: read(path) for path in sheets.csv(made.nothing(), tmp_path)}
    assert files.pop("totals")[0] == {"figure": "rows", "value": "0"}
    assert not any(files.values())


def test_no_text_is_a_formula(tmp_path: Path) -> None:
    report = made.minutes()
    names = ["=cmd()", "+1", "-1", "@a", "\tx", "plain", "a\0b\nc\ud800"]
    report = replace(report, destinations=tuple([DestinationFigures(name, report.whole) for name in names]))
    sheets.csv(report, tmp_path)
    found = [row["destination"] for row in read(tmp_path / "destinations.csv")]
    assert found == ["'=cmd()", "'+1", "'-1", "'@a", "'\tx", "plain", "a\\x00b\nc\\ud800"]


def test_reasons_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    report = replace(made.day(), unlisted={"error": 4})
    report = replace(report, events={**report.events, "error": 10_000})
    files = {path.stem: read(path) for path in sheets.csv(report, tmp_path)}
    totals = {row["figure"]: row["value"] for row in files["totals"]}
    listed = sum([int(row["count"]) for row in files["reasons"] if row["event"] == "error"])
    assert totals["other_reasons_error"] == str(10_000 - listed)
