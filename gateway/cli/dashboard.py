"""Display of `gateway top`, made of answers of the admin API.  It knows no terminal and no network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gateway.text import visible

Answer = dict[str, Any]
HEAD = 11  # most lines beside the rows of the table, without complaints


def number(value: float) -> str:
    """1234567 -> 1.23M; below a thousand as it is."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.3g}" if value % 1 else f"{value:.0f}"


def nbytes(value: float) -> str:
    """1536 -> 1.5 KiB."""
    for power, name in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{value / 1024**power:.3g} {name}"
    return f"{value:.0f} B"


def duration(seconds: float) -> str:
    """93784 -> 1d 02:03:04."""
    days, rest = divmod(int(seconds), 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {clock}" if days else clock


def age(seconds: float | None) -> str:
    """An age; None: no message waits."""
    return "-" if seconds is None else duration(seconds)


@dataclass(frozen=True)
class BoardColumn:
    """A column: the row's key, by which the API sorts, and the format of its values."""

    key: str
    title: str
    shown: Callable[[Any], str] = number
    is_text: bool = False


@dataclass(frozen=True)
class BoardTable:
    """A table: its path and name in the API, and its columns."""

    name: str
    columns: tuple[BoardColumn, ...]

    @property
    def sortable(self) -> tuple[BoardColumn, ...]:
        return tuple([column for column in self.columns if column.key != "kind"])


DESTINATIONS = BoardTable(
    "destinations",
    (
        BoardColumn("name", "DESTINATION", visible, is_text=True),
        BoardColumn("kind", "KIND", str, is_text=True),
        BoardColumn("waiting", "WAITING"),
        BoardColumn("unacknowledged", "UNACKED"),
        BoardColumn("delayed", "IN BACK-OFF"),
        BoardColumn("oldest_age", "OLDEST", age),
        BoardColumn("subscriptions", "SUBS"),
        BoardColumn("octets", "SIZE", nbytes),
    ),
)
SESSIONS = BoardTable(
    "sessions",
    (
        BoardColumn("login", "LOGIN", visible, is_text=True),
        BoardColumn("peer", "PEER", visible, is_text=True),
        BoardColumn("transport", "BY", str, is_text=True),
        BoardColumn("subscriptions", "SUBS"),
        BoardColumn("unacknowledged", "UNACKED"),
        BoardColumn("pending_octets", "PENDING", nbytes),
        BoardColumn("frames_in", "FRAMES IN"),
    ),
)


def head(overview: Answer) -> RenderableType:
    """The figures of the whole gateway: six lines, and one for each complaint."""
    last = overview["samples"][-1] if overview["samples"] else dict.fromkeys([*_RATES.values(), "cpu", "lag_ms"], 0)
    turn = overview["latency"]["turn_ms"]
    memory = overview["memory"]
    state = Text("ready", "green") if overview["ready"] else Text(f"not ready: {overview['reason']}", "bold red")
    figures = Table.grid(expand=True)
    for _ in range(_FIGURES):
        figures.add_column(ratio=1, no_wrap=True)
    for row in (
        [(f"{name}/s", number(last[key])) for name, key in _RATES.items()],
        [
            ("p50", _milliseconds(turn, "p50")),
            ("p99", _milliseconds(turn, "p99")),
            ("cpu", f"{100 * last['cpu']:.0f} %"),
            ("lag", f"{last['lag_ms']:.0f} ms"),
        ],
        [
            ("sessions", number(overview["sessions"]["total"])),
            ("tcp", number(overview["sessions"]["tcp"])),
            ("websocket", number(overview["sessions"]["websocket"])),
            ("held", number(overview["held"])),
        ],
        [
            ("destinations", number(overview["destinations"])),
            ("subscriptions", number(overview["subscriptions"])),
            ("waiting", number(overview["messages"]["waiting"])),
            ("unacked", number(overview["messages"]["unacknowledged"])),
        ],
        [
            ("messages", nbytes(overview["messages"]["octets"])),
            ("memory", nbytes(memory["process"])),
            ("of", nbytes(memory["mark"]) if memory["mark"] else "-"),
            ("scheduled", number(overview["messages"]["delayed"])),
        ],
    ):
        figures.add_row(*[Text.assemble((f"{name} ", "dim"), value) for name, value in row])
    first = (f"stomp-gateway {overview['version']}", "bold"), f"  up {duration(overview['uptime'])}  ", state
    lines: list[RenderableType] = [Text.assemble(*first), figures]
    lines += [Text(f"{name}: {sentence}", "yellow") for name, sentence in _complaints(overview)]
    return Group(*lines)


_FIGURES = 4
_RATES = {"in": "published", "out": "delivered", "acks": "acknowledged", "errors": "errors"}


def _complaints(overview: Answer) -> Iterable[tuple[str, str]]:
    yield from overview["complaints"].items()
    for part in ("store", "journal"):
        if overview[part] and overview[part]["failing"]:
            yield part, overview[part]["failing"]
    if overview["memory"]["pressed"]:
        yield "memory", "it is short, publishers are held back"


def _milliseconds(quantiles: Answer | None, name: str) -> str:
    return "-" if quantiles is None else f"{quantiles[name]:.3g} ms"


def table(listing: BoardTable, rows: list[Answer], total: int, sort: str) -> RenderableType:
    """The rows, the first of `total`, as they were sorted."""
    made = Table(box=None, pad_edge=False, expand=True, header_style="reverse")
    for column in listing.columns:
        title = f"{column.title} *" if column.key == sort.removeprefix("-") else column.title
        made.add_column(
            title,
            justify="left" if column.is_text else "right",
            ratio=1 if column is listing.columns[0] else None,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        least = ["≥ " if row.get(f"{column.key}_is_least") else "" for column in listing.columns]
        shown = [column.shown(row[column.key]) for column in listing.columns]
        made.add_row(*[Text(each + value) for each, value in zip(least, shown, strict=True)])
    return Group(made, Text(f"{len(rows)} of {total} {listing.name}", "dim"))
