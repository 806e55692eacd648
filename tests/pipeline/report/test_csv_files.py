"""The CSV files have the figures, and no text in them is a formula."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from gateway.pipeline.report.csv_files import write
from gateway.pipeline.report.figures import DestinationFigures, Report
from tests.pipeline.report import made


def files_of(report: Report, folder: Path) -> dict[str, list[dict[str, str]]]:
    found = {}
    for path in write(report, folder):
        with path.open(encoding="utf-8", newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    assert {path.stem for path in folder.iterdir()} == set(found)
    return found


def test_the_files_have_the_figures(tmp_path: Path) -> None:
    report = made.day()
    report = replace(report, unlisted={"error": 4}, events={**report.events, "error": 10_000})
    files = files_of(report, tmp_path / "new")
    totals = {row["figure"]: row["value"] for row in files["totals"]}
    listed = sum([int(row["count"]) for row in files["reasons"] if row["event"] == "error"])
    assert totals["accepted"] == str(report.total("accepted"))
    assert (totals["missing_rows"], totals["destinations"]) == ("18630", "252")
    assert totals["other_reasons_error"] == str(10_000 - listed)
    for event in ("accepted", "delivered", "acked", "dead_lettered"):
        assert sum([int(row[event]) for row in files["traffic"]]) == report.total(event)
    assert files["traffic"][1]["start"] == "2026-11-20T00:15:00Z"
    queue = [row for row in files["latency"] if row["kind"] == "queue"]
    assert sum([int(row["count"]) for row in queue]) == sum(report.whole.queue.values())
    assert all(float(row["from_us"]) < float(row["to_us"]) for row in queue)
    assert [row["destination"] for row in files["destinations"]] == [each.name for each in report.destinations]
    assert [(row["size"], row["headers"][:15]) for row in files["dead_letters"]] == [("1380", '{"content-type"')] * 5
    assert [row["kind"] for row in files["consumers"]] == ["stuck", "slow"]
    assert files["consumers"][0]["cleared"] == ""
    assert len(files["reasons"]) == len(report.reasons)
    assert sum([int(row["rows"]) for row in files["gaps"]]) == 18_630


def test_an_empty_span_has_files_with_headings(tmp_path: Path) -> None:
    files = files_of(made.nothing(), tmp_path)
    assert files.pop("totals")[0] == {"figure": "rows", "value": "0"}
    assert not any(files.values())


def test_texts_are_no_formulas(tmp_path: Path) -> None:
    report = made.minutes()
    names = ["=cmd()", "+1", "-1", "@a", "\tx", "plain", "a\0b\nc\ud800"]
    report = replace(report, destinations=tuple([DestinationFigures(name, report.whole) for name in names]))
    found = [row["destination"] for row in files_of(report, tmp_path)["destinations"]]
    assert found == ["'=cmd()", "'+1", "'-1", "'@a", "'\tx", "plain", "a\\x00b\nc\\ud800"]
