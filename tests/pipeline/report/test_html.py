"""Text never becomes markup and shows what would be invisible; numbers have units, times are UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.report import formats
from gateway.pipeline.report.html import element
from gateway.text import visible


class Reader(HTMLParser):
    """Keeps what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.values: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [value for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text(st.characters(codec=None), min_size=1))
def test_any_text_stays_text(text: str) -> None:
    reader = Reader()
    reader.feed(element("p", text, title=text))
    reader.close()
    assert reader.tags == ["p"]
    assert "".join(reader.texts) == visible(text)
    assert reader.values == [visible(text)]
    reader.texts[0].encode()


S, H = 1e6, 3_600e6


@pytest.mark.parametrize(
    ("of", "texts"),
    [
        (formats.latency, {None: "–", 0: "0 µs", 7: "7 µs", 692: "690 µs", 996: "1 ms", 1234: "1.2 ms"}),
        (formats.latency, {251_000: "250 ms", 999_900: "1 s", 61 * S: "61 s", 121 * S: "2 min", 7_300 * S: "2 h"}),
        (formats.latency, {40 * H: "40 h", 72 * H: "3 d"}),
        (formats.short, {0: "0", 0.25: "0.25", 1 / 3: "0.333", 12: "12", 999.9: "1 k", 1234567: "1.23 M"}),
        (formats.short, {2e9: "2 G", 3e12: "3 T"}),
        (formats.size, {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 * 1024**2: "5 MiB", 2**30: "1 GiB"}),
        (formats.size, {2**40: "1 TiB"}),
        (formats.count, {1234567: "1,234,567"}),
        (formats.length, {timedelta(seconds=90): "1 min 30 s", timedelta(hours=24): "24 h"}),
        (formats.length, {timedelta(days=7, hours=1): "7 d 1 h", timedelta(seconds=1.5): "1 s"}),
        (formats.length, {timedelta(milliseconds=500): "0.5 s"}),
    ],
)
def test_numbers(of: Callable[[Any], str], texts: dict[Any, str]) -> None:
    assert {value: of(value).replace(formats.SPACE, " ") for value in texts} == texts


def test_moments_are_utc() -> None:
    when = datetime(2026, 11, 22, 0, 3, tzinfo=timezone(timedelta(hours=1)))
    assert formats.moment(when).replace(formats.SPACE, " ") == "21 Nov 2026 23:03"
    assert formats.iso(when) == "2026-11-21T23:03:00Z"
    assert formats.clock(when.replace(second=7)) == "23:03:07"
    assert formats.iso(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)) == "2026-01-02T03:04:05.000006Z"
