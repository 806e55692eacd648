"""The page as Chromium shows it from disk, with the network off: the figures, the look, and names that are hostile."""

from __future__ import annotations

import base64
import csv
import hashlib
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.pipeline.report.csv_files import write
from gateway.pipeline.report.figures import DestinationFigures, Report
from gateway.pipeline.report.page import page_of
from tests.pipeline.report import made
from tests.pipeline.report.conftest import Look

PHONE = {"viewport": {"width": 390, "height": 844}}
WIDE = {"viewport": {"width": 1200, "height": 900}}
SIZES: dict[str, dict[str, Any]] = {"wide": WIDE, "phone": PHONE}
SHORT = ((made.day, "light", "phone"), (made.hostile, "dark", "wide"))
REPORTS = (made.day, made.minutes, made.nothing, made.hostile)


def luminance(colour: str) -> float:
    channels = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return sum([weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True)])


def contrast(pair: dict[str, str]) -> float:
    low, high = sorted([luminance(pair["text"]), luminance(pair["ground"])])
    return (high + 0.05) / (low + 0.05)


def values(seen: dict[str, Any], section: str, figure: str) -> list[dict[str, Any]]:
    return [each for each in seen["rows"] if each["in"] == section and each["figure"] == figure]


@pytest.mark.parametrize(
    ("make", "scheme", "size"),
    [
        pytest.param(*each, marks=() if each in SHORT else pytest.mark.long)
        for each in itertools.product(REPORTS, ("light", "dark"), SIZES)
    ],
)
def test_it_can_be_read(make: Callable[[], Report], scheme: str, size: str, look: Look) -> None:
    seen = look(page_of(make()), colorScheme=scheme, **SIZES[size])
    assert seen["scroll"] == 0
    assert not seen["wide"]
    assert not seen["cut"]
    assert seen["smallest"] >= 12
    assert (luminance(seen["body"]["ground"]) < 0.1) == (scheme == "dark")
    assert all(contrast(pair) >= 7 for pair in [seen["body"], *seen["notice"]])
    assert seen["scripts"] == 0
    assert not seen["repeated"]
    for chart in seen["charts"]:
        assert all(chart["said"])
        assert chart["width"] > 200
        assert chart["height"] > 200


def test_on_paper_it_is_light_and_whole(look: Look) -> None:
    """As wide as A4 between its margins."""
    seen = look(page_of(made.day()), media="print", colorScheme="dark", viewport={"width": 718, "height": 1047})
    assert (seen["scroll"], seen["wide"]) == (0, [])
    assert luminance(seen["body"]["ground"]) > 0.8
    assert all(contrast(pair) >= 7 for pair in [seen["body"], *seen["notice"]])


def test_the_figures_of_a_day(look: Look) -> None:
    report = replace(made.day(), unlisted={"error": 2000})
    seen = look(page_of(report), **WIDE)
    assert f"and {len(report.because('error')) - 15 + 2000:,} more" in seen["text"].replace("\u202f", ",")
    for event in ("accepted", "delivered", "acked", "nacked", "redelivered", "expired", "dead_lettered", "dropped"):
        assert seen["figures"][event] == str(report.total(event))
        steps = values(seen, "traffic", event)
        assert len(steps) == 96
        assert sum([int(each["value"]) for each in steps]) == report.total(event)
    assert seen["figures"]["bytes"] == str(report.whole.body_bytes["accepted"])
    few = [seen["figures"][key] for key in ("stuck", "slow", "missing", "connected", "error")]
    assert few == "1 1 18630 1312 31".split()
    accepted = values(seen, "destinations", "accepted")
    assert len(accepted) == 25
    assert accepted[0]["destination"] == "/queue/orders"
    assert accepted[0]["value"] == str(report.destinations[0].figures.counts["accepted"])
    assert "The busiest 25 of 252." in seen["text"]
    letters = [int(each["value"]) for each in values(seen, "dead-letters", "dead_lettered")]
    assert letters == [report.total("dead_lettered") - 40, 40]
    assert [each["kind"] for each in values(seen, "consumers", "pending")] == ["stuck", "slow"]
    assert len(values(seen, "latency", "p99")) == 2 * 96
    charts = [chart["id"] for chart in seen["charts"]]
    assert charts == ["traffic-chart", "exceptions-chart", "queue-chart", "ack-chart"]
    assert seen["sections"][:2] == ["gaps", "figures"]
    assert "18,630 rows of the journal are missing" in seen["text"]
    assert [each["value"] for each in values(seen, "gaps", "dropped_rows")] == ["18220", "410"]


def test_quiet_and_empty_spans_and_hostile_names(look: Look) -> None:
    seen = look(page_of(made.minutes()))
    assert "gaps" not in seen["sections"]
    assert "Nothing needs attention" in seen["text"]
    assert "20 Nov 2026 14:03 to 14:08 UTC" in seen["text"].replace("\u00a0", " ")
    assert [chart["id"] for chart in seen["charts"]] == ["traffic-chart", "queue-chart", "ack-chart"]
    assert seen["text"].count("None in this span.") == 2
    seen = look(page_of(made.nothing()))
    assert (seen["sections"], seen["figures"]) == (["nothing"], {"rows": "0", "journal_rows": "0"})
    assert "Nothing in this span" in seen["text"]
    # Chromium would say so if anything ran; and the text is there as it was given.
    seen = look(page_of(made.hostile()))
    assert seen["text"].count("/queue/<script>alert('x')</script>\"&amp;\\u202e\\x00\\n") > 10
    assert values(seen, "destinations", "accepted")[0]["destination"].startswith("/queue/<script>")


def test_the_policy_allows_the_one_style_sheet() -> None:
    written = page_of(made.minutes())
    (style,) = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', written)
    assert policy.startswith("default-src &#x27;none&#x27;; ")
    assert f"sha256-{digest}" in policy
    assert "unsafe" not in policy
    assert not re.findall(r'\sstyle=|(?:src|href)="(?!#|data:)', written)


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
    empty = files_of(made.nothing(), tmp_path / "empty")
    assert empty.pop("totals")[0] == {"figure": "rows", "value": "0"}
    assert not any(empty.values())
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
    assert [(row["kind"], row["cleared"][-9:]) for row in files["consumers"]] == [("stuck", ""), ("slow", "13:31:00Z")]
    assert len(files["reasons"]) == len(report.reasons)
    assert sum([int(row["rows"]) for row in files["gaps"]]) == 18_630


def test_texts_are_no_formulas(tmp_path: Path) -> None:
    report = made.minutes()
    names = ["=cmd()", "+1", "-1", "@a", "\tx", "plain", "a\0b\nc\ud800"]
    report = replace(report, destinations=tuple([DestinationFigures(name, report.whole) for name in names]))
    found = [row["destination"] for row in files_of(report, tmp_path)["destinations"]]
    assert found == ["'=cmd()", "'+1", "'-1", "'@a", "'\tx", "plain", "a\\x00b\nc\\ud800"]
