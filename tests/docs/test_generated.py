"""What `docs/generate` writes: the page of headers has all of the table."""

from __future__ import annotations

from docs.generate import headers
from gateway.broker.headers.row import Treatment
from gateway.broker.headers.table import TABLE


def lines_of(title: str) -> list[str]:
    section = headers.page().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("* `")]


def test_every_row_is_there_with_all_it_says() -> None:
    titles = {
        "CONNECT": "CONNECT and STOMP",
        "STOMP": "CONNECT and STOMP",
        "ACK": "ACK and NACK",
        "NACK": "ACK and NACK",
    }
    for row in TABLE:
        frames = [frame for frame in row.frames if frame not in ("BEGIN", "COMMIT", "ABORT", "DISCONNECT")]
        if row.name == "receipt" or not frames:
            assert f"`{row.name}`" in headers.HEAD
            continue
        sections = ["Queue arguments on SEND and SUBSCRIBE"] if row.argument else [titles.get(f, f) for f in frames]
        for title in sections:
            (line,) = [line for line in lines_of(title) if line.endswith(row.meaning) and f"`{row.name}`" in line]
            for spelling in row.spellings:
                assert f"`{spelling.name}`" + (f" ({spelling.broker})" if spelling.broker else "") in line
                if row.treatment is Treatment.HONOURED:
                    said = headers.short(spelling.values.allowed)
                    assert said == "anything" or said.removeprefix("a ") in line
                else:
                    assert f"\n{row.treatment.value.capitalize()}:\n" in headers.page().split(line)[0]
                assert all(f"`{word}`" in line for word in spelling.passes if word)
