"""The page of headers: that it is up to date, and that it says all that the table says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from gateway import dictionary_reference
from gateway.broker.headers.row import OTHER_WORDS, HeaderRow, Treatment
from gateway.broker.headers.table import TABLE

ROOT = Path(__file__).parent.parent


def lines_of(title: str) -> list[str]:
    """The rows of one section's table, without its head."""
    section = dictionary_reference.page().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def test_committed_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "headers.md").read_text() == dictionary_reference.page(), "run `make docs`"


def test_run_as_a_module_it_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(dictionary_reference.__file__, run_name="__main__")
    assert capsys.readouterr().out == dictionary_reference.page()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.frames[0]} {row.name}")
def test_every_row_is_there_with_all_it_says(row: HeaderRow) -> None:
    titles = {
        "CONNECT": "CONNECT and STOMP",
        "STOMP": "CONNECT and STOMP",
        **dict.fromkeys(("BEGIN", "COMMIT", "ABORT"), "BEGIN, COMMIT and ABORT"),
    }
    sections = ["Queue arguments on SEND and SUBSCRIBE"] if row.argument else [titles.get(f, f) for f in row.frames]
    for title in sections:
        (line,) = [line for line in lines_of(title) if line.startswith(f"| `{row.name}`")]
        assert line.endswith(f" | {row.meaning} |")
        assert f"| {row.treatment.value} |" in line
        for spelling in row.spellings:
            assert f"`{spelling.name}`" + (f" ({spelling.broker})" if spelling.broker else "") in line
            if row.treatment is not Treatment.REFUSED:
                assert spelling.values.allowed in line
            assert all(f"`{word}`" in line for word in spelling.passes if word)


def test_nothing_else_is_there() -> None:
    page = dictionary_reference.page()
    rows = sum(line.startswith("| `") for line in page.splitlines())
    # CONNECT and STOMP share a section, and so do BEGIN, COMMIT and ABORT, and the frames with queue arguments.
    shared = {"STOMP", "COMMIT", "ABORT"}
    assert rows == sum(1 if row.argument else len(set(row.frames) - shared) for row in TABLE)


def test_whether_subscribers_see_it() -> None:
    seen = {line.split("`")[1]: line.split(" | ")[4] for line in lines_of("SEND")}
    assert seen["priority"] == "yes"
    assert seen["x-delay"] == "no"
    assert seen["AMQ_SCHEDULED_CRON"] == "no"
    assert seen["JMSXGroupID"] == "yes; an alias as `JMSXGroupID` as well"


def test_the_names_that_are_taken_for_slips() -> None:
    section = dictionary_reference.page().split("\n## SUBSCRIBE\n")[1].split("\n## ")[0]
    assert all(f"`{word}`" in section for word in OTHER_WORDS)


def test_values_that_ask_for_nothing() -> None:
    page = dictionary_reference.page()
    assert "| `AMQ_SCHEDULED_REPEAT` (ActiveMQ) | `0` or an empty value is accepted |" in page
    assert "| `x-stream-filter-value` (RabbitMQ) | none |" in page


def test_tables_are_whole() -> None:
    """Every line of a table has as many cells as its head."""
    width = 0
    for line in dictionary_reference.page().splitlines():
        cells = line.replace("\\|", "").count("|")
        width = (width or cells) if line.startswith("|") else 0
        assert cells == width or not line.startswith("|")
