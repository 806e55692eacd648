"""`gateway top`: rates and problems of a gateway, and its busiest destinations or sessions, in a terminal.

It asks the admin API for the overview, and for as many sorted rows as the screen has, so 100,000 queues cost no more
than ten.  While the gateway does not answer, the last figures stay on the screen, with the reason.

What is shown is made of answers of the API, by functions that know no terminal and no network.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gateway.cli.admin_client import AdminClient, NoAnswer, admin_client_of
from gateway.config.values import duration_like
from gateway.text import visible

_KEYS = "q quit   d destinations   s sessions   < > sort by another column   r reverse"
# Rows of a printed snapshot, and the fewest rows on a small screen.
_PRINTED, _FEWEST = 20, 3
_MOST = 100  # rows of one answer that have a series

Answer = dict[str, Any]
HEAD = 12  # most lines beside the rows of the table, without problems
MOST_PROBLEMS = 5  # lines
MOST_EDGES = 8  # lines
# Looks over which the processor and the link of an edge are told: the gateway hears of them once a second.
_LOOKS = 6
_GAP = 1  # columns of the screen between two of the table
# Seconds of the thin line of a destination, one character for so many of its values, and its heights.
_BARS, _VALUES_A_BAR = "▁▂▃▄▅▆▇█", 3


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
    """An age in few characters: 93784 -> 1d 02h; None: no message waits."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    for unit, name, part, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            return f"{whole // unit}{name} {whole % unit // part:02}{below}"
    return f"{whole}s"


def middle(text: str, most: int) -> str:
    """The text in so many characters: names are known by their end as well as by their start."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def sparkline(series: Answer | None) -> str:
    """Messages that came in the last five minutes, as high as they were many."""
    values = [] if series is None else series["published"]
    padded = [0.0] * (-len(values) % _VALUES_A_BAR) + values
    bars = [max(padded[place : place + _VALUES_A_BAR]) for place in range(0, len(padded), _VALUES_A_BAR)]
    most = max(bars, default=0) or 1
    return "".join([_BARS[round(each / most * (len(_BARS) - 1))] for each in bars])


@dataclass(frozen=True)
class BoardColumn:
    """A column: the row's key, by which the API sorts, the format of its values, and the least width of a screen."""

    key: str
    title: str
    shown: Callable[[Any], str] = number
    is_text: bool = False
    least_width: int = 0


@dataclass(frozen=True)
class BoardTable:
    """A table: its path and name in the API, and its columns."""

    name: str
    columns: tuple[BoardColumn, ...]

    @property
    def sortable(self) -> tuple[BoardColumn, ...]:
        return tuple([column for column in self.columns if column.key not in ("kind", "series")])

    def column(self, key: str) -> int:
        """The place of a column among the sortable ones."""
        return [column.key for column in self.sortable].index(key)


DESTINATIONS = BoardTable(
    "destinations",
    (
        BoardColumn("name", "DESTINATION", visible, is_text=True),
        BoardColumn("kind", "KIND", str, is_text=True, least_width=120),
        BoardColumn("series", "5 MINUTES", sparkline, is_text=True, least_width=120),
        BoardColumn("published_rate", "IN/s"),
        BoardColumn("delivered_rate", "OUT/s"),
        BoardColumn("acknowledged_rate", "ACK/s"),
        BoardColumn("lost_rate", "LOST/s"),
        BoardColumn("lost", "LOST", least_width=90),
        BoardColumn("waiting", "WAITING"),
        BoardColumn("unacknowledged", "UNACKED"),
        BoardColumn("delayed", "IN BACK-OFF", least_width=140),
        BoardColumn("oldest_age", "OLDEST", age),
        BoardColumn("subscriptions", "SUBS"),
        BoardColumn("octets", "SIZE", nbytes, least_width=100),
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


def head(overview: Answer, before: Answer | None = None) -> RenderableType:
    """The figures of the whole gateway: seven lines, and one for each edge and each problem.

    `before`: an overview of some seconds ago; without it, figures of edges are since their start.
    """
    names = [*_RATES.values(), *_LOSSES, "cpu", "lag_ms"]
    last = overview["samples"][-1] if overview["samples"] else dict.fromkeys(names, 0)
    losses = overview["losses"]
    turn = overview["latency"]["turn_ms"]
    memory = overview["memory"]
    if overview.get("standby"):  # a gateway of a release before has none
        state = Text(overview["reason"], "yellow")
    else:
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
        [
            ("lost/s", number(sum([last[name] for name in _LOSSES]))),
            ("dropped", number(losses["dropped"])),
            ("dead letters", number(losses["dead_lettered"])),
            ("expired", number(losses["expired"])),
        ],
        *edges(overview, before or {}),
    ):
        figures.add_row(*[Text.assemble((f"{name} ", "dim"), value) for name, value in row])
    first = (f"stomp-gateway {overview['version']}", "bold"), f"  up {duration(overview['uptime'])}  ", state
    lines: list[RenderableType] = [Text.assemble(*first), figures]
    return Group(*lines, *problems(overview["problems"]))


_FIGURES = 4
_RATES = {"in": "published", "out": "delivered", "acks": "acknowledged", "errors": "errors"}


_LOSSES = ("dropped", "dead_lettered", "expired")
_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim"}


def edges(overview: Answer, before: Answer) -> Iterator[list[tuple[str, str]]]:
    """A row of figures for each of the first edges."""
    rows = overview.get("edges", [])  # a gateway of a release before has none
    known = {row["edge"]: row for row in before.get("edges", [])}
    for row in rows[:MOST_EDGES]:
        name = visible(row["edge"])
        if not row["ready"]:
            yield [("edge", name), ("serves no clients", ""), ("", ""), ("", "")]
            continue
        past, seconds = known.get(row["edge"]), overview["at"] - before.get("at", 0)
        if past is None or past["since"] != row["since"]:
            past, seconds = dict.fromkeys(row, 0), overview["at"] - row["since"]
        cpu, received, sent = (
            (row[key] - past[key]) / max(seconds, 0.001) for key in ("cpu_seconds", "link_received", "link_sent")
        )
        yield [
            ("edge", name),
            ("cpu", f"{100 * cpu:.0f} %"),
            ("sessions", number(row["sessions"])),
            ("link", f"{nbytes(received + sent)}/s"),
        ]
    if len(rows) > MOST_EDGES:
        yield [(f"and {len(rows) - MOST_EDGES} more edges", ""), ("", ""), ("", ""), ("", "")]


def problems(found: list[Answer]) -> list[Text]:
    """A line for each of the worst problems."""
    lines = [
        Text(visible(f"{each['title']}: {each['what']}"), _STYLES[each["severity"]], no_wrap=True, overflow="ellipsis")
        for each in found[:MOST_PROBLEMS]
    ]
    if len(found) > MOST_PROBLEMS:
        lines.append(Text(f"and {len(found) - MOST_PROBLEMS} more problems", "dim"))
    return lines


def _milliseconds(quantiles: Answer | None, name: str) -> str:
    return "-" if quantiles is None else f"{quantiles[name]:.3g} ms"


def table(listing: BoardTable, rows: list[Answer], total: int, sort: str, width: int) -> RenderableType:
    """The rows, the first of `total`, as they were sorted, on a screen of that width."""
    made = Table(box=None, pad_edge=False, expand=True, header_style="reverse", padding=(0, _GAP, 0, 0))
    columns = [column for column in listing.columns if column.least_width <= width]
    sorted_by = sort.removeprefix("-")
    titles = [f"{column.title}*" if column.key == sorted_by else column.title for column in columns]
    cells = [[_cell(column, row) for column in columns] for row in rows]
    widths = [max(map(len, each)) for each in zip(titles, *cells, strict=True)]
    room = max(width - sum(widths[1:]) - _GAP * (len(columns) - 1), len(titles[0]))
    for column, title, each in zip(columns, titles, [room, *widths[1:]], strict=True):
        made.add_column(title, justify="left" if column.is_text else "right", width=each, no_wrap=True)
    styles = ["bold red" if column.key == "lost_rate" else "" for column in columns]
    for row, (first, *others) in zip(rows, cells, strict=True):
        loses = row.get("lost_rate", 0) > 0
        values = zip((middle(first, room), *others), styles, strict=True)
        made.add_row(*[Text(value, style if loses else "") for value, style in values])
    return Group(made, Text(f"{len(rows)} of {total} {listing.name}", "dim"))


def _cell(column: BoardColumn, row: Answer) -> str:
    value = row.get("title", row["name"]) if column.key == "name" else row[column.key]
    return ("≥ " if row.get(f"{column.key}_is_least") else "") + column.shown(value)


@dataclass(frozen=True)
class View:
    """The table that is shown, and its order."""

    listing: BoardTable = DESTINATIONS
    column: int = DESTINATIONS.column("waiting")
    descending: bool = True

    @property
    def sort(self) -> str:
        return ("-" if self.descending else "") + self.listing.sortable[self.column].key

    def after(self, key: str) -> View:
        if key in "ds":
            return View() if key == "d" else View(SESSIONS, SESSIONS.column("unacknowledged"))
        if key in "<>":
            step = 1 if key == ">" else -1
            return replace(self, column=(self.column + step) % len(self.listing.sortable))
        return replace(self, descending=not self.descending) if key == "r" else self


@dataclass
class Screen:
    """The last answers, and their display."""

    source: AdminClient
    view: View = field(default_factory=View)
    fault: str = ""
    _overview: Answer = field(default_factory=dict)
    _looks: deque[Answer] = field(default_factory=lambda: deque(maxlen=_LOOKS))
    _list: Answer = field(default_factory=dict)

    def ask(self, rows: int) -> None:
        """Ask the gateway.  Raises NoAnswer: it does not answer; the last answers stay."""
        since = self._overview.get("at", 0)
        fresh = self.source.get("overview", since=since)
        fresh["samples"] = fresh["samples"] or self._overview.get("samples", [])
        listing = self.view.listing
        more = {"series": "true"} if listing is DESTINATIONS else {}
        lines = min(len(fresh["problems"]), MOST_PROBLEMS + 1) + min(len(fresh.get("edges", ())), MOST_EDGES + 1)
        rows = min(max(_FEWEST, rows - lines), _MOST)
        self._list = self.source.get(listing.name, limit=rows, sort=self.view.sort, **more)
        self._overview = fresh
        self._looks.append(fresh)

    def show(self, width: int, footer: str = "") -> RenderableType:
        listing = self.view.listing
        parts = [head(self._overview, self._looks[0] if len(self._looks) > 1 else None), Text(self.fault, "bold red")]
        if listing.name in self._list:
            parts.append(table(listing, self._list[listing.name], self._list["total"], self.view.sort, width))
        return Group(*parts, Text(footer, "dim"))


@click.command()
@click.option("--url", help="The gateway's HTTP address; by default that of the setting `http`.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the admin token; by default the setting `admin_token` (GATEWAY_ADMIN_TOKEN).",
)
@click.option("--ca", default="", metavar="FILE", help="Certificates to trust instead of the system's.")
@click.option("--cert", default="", metavar="FILE", help="The client certificate.")
@click.option("--key", default="", metavar="FILE", help="Its key, if it has a file of its own.")
@click.option(
    "--interval",
    type=duration_like("1s or 500ms", 0.2, 60),
    default="1s",
    show_default=True,
    help="Pause between two looks.",
)
@click.option("--once", is_flag=True, help="Print it once, and end; the default without a terminal.")
def top(url: str | None, token_file: Path | None, ca: str, cert: str, key: str, interval: float, once: bool) -> None:
    """Show rates, latencies and memory of a gateway, its edges, and its busiest destinations or sessions.

    Processor and link of an edge are those of the last seconds; printed, those since its start.

    Exit status: 0; 1 when the gateway does not answer at the start, or refuses.
    """
    screen = Screen(admin_client_of(url, token_file, ca, cert, key))
    console = Console(highlight=False)
    try:
        screen.ask(_PRINTED)
        if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            console.print(screen.show(console.width))
        else:
            _run(screen, console, interval)
    except NoAnswer as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        sys.exit(130)


def _run(screen: Screen, console: Console, interval: float) -> None:
    """Ask and show until the key q.  Raises NoAnswer: the gateway refuses."""
    with _single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                screen.ask(console.height - HEAD)
                screen.fault = ""
            except NoAnswer as error:
                if error.is_refusal:
                    raise
                screen.fault = str(error)
            live.update(screen.show(console.width, _KEYS), refresh=True)
            for key in _wait_for_keys(interval):
                if key == "q":
                    return
                screen.view = screen.view.after(key)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Read each key at once, without echo, for the time of the block."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _wait_for_keys(seconds: float) -> str:
    """The pressed keys, as soon as there are any; "": none in so many seconds.  The end of the input reads as "q"."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], seconds)[0]:
        return ""
    return os.read(descriptor, 100).decode(errors="replace") or "q"
