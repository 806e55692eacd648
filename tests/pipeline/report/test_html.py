"""Text never becomes markup, and shows characters that would be invisible."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

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
