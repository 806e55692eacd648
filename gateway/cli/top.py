"""`gateway top`: what a gateway does, in a terminal, once a second.

It asks the admin API for the figures of the whole, and for as many rows of one list as the screen has.  The gateway
sorts; so neither it nor the terminal ever handles all of 100,000 queues here.  A gateway that goes away stays on the
screen, with the words that say so, until it is back.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from gateway.client.tls import FileError

from . import dashboard, keys
from .admin_client import AdminClient, NoAnswer

_KEYS = "q quit   d destinations   s sessions   < > sort by another column   r reverse"
# Rows of a snapshot that is printed, and the fewest on a screen, however small.
_PRINTED, _FEWEST = 20, 3


@dataclass(frozen=True)
class View:
    """Which list is shown, and how it is sorted."""

    listing: dashboard.BoardTable = dashboard.DESTINATIONS
    column: int = 1
    descending: bool = True

    @property
    def sort(self) -> str:
        """As the API wants it."""
        return ("-" if self.descending else "") + self.listing.sortable[self.column].key

    def after(self, key: str) -> View:
        """The view that a key asks for."""
        if key in "ds":
            listing = dashboard.DESTINATIONS if key == "d" else dashboard.SESSIONS
            return View(listing, 1 if key == "d" else 4)
        if key in "<>":
            step = 1 if key == ">" else -1
            return replace(self, column=(self.column + step) % len(self.listing.sortable))
        return replace(self, descending=not self.descending) if key == "r" else self


@dataclass
class Screen:
    """What was last heard, and how it looks."""

    source: AdminClient
    view: View = field(default_factory=View)
    fault: str = ""
    _overview: dashboard.Answer = field(default_factory=dict)
    _list: dashboard.Answer = field(default_factory=dict)

    def ask(self, rows: int) -> None:
        """Ask the gateway.

        Raises:
            NoAnswer: it does not say; what it said before stays.
        """
        since = self._overview.get("at", 0)
        fresh = self.source.get("overview", since=since)
        fresh["samples"] = fresh["samples"] or self._overview.get("samples", [])
        self._list = self.source.get(self.view.listing.name, limit=rows, sort=self.view.sort)
        self._overview = fresh

    def show(self, footer: str = "") -> RenderableType:
        """All of it."""
        listing = self.view.listing
        parts = [dashboard.head(self._overview), Text(self.fault, "bold red")]
        if listing.name in self._list:
            parts.append(dashboard.table(listing, self._list[listing.name], self._list["total"], self.view.sort))
        return Group(*parts, Text(footer, "dim"))


@click.command()
@click.option("--url", help="The gateway's HTTP side; else the setting `http` says where it is.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that holds the admin token; else the setting `admin_token` (GATEWAY_ADMIN_TOKEN) is shown.",
)
@click.option("--ca", default="", help="Certificates to trust instead of the system's, for https.")
@click.option("--cert", default="", help="The certificate to show, for https.")
@click.option("--key", default="", help="Its key, where that has a file of its own.")
@click.option("--interval", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Print it once, and end; so it is where standard output is no terminal.")
def top(url: str | None, token_file: Path | None, ca: str, cert: str, key: str, interval: float, once: bool) -> None:
    """Show what a gateway does: rates, latencies, memory, and its busiest destinations or sessions.

    Exit status: 0; 1 and one sentence when the gateway does not answer at the start, or refuses.
    """
    screen = Screen(_source(url, token_file, ca, cert, key))
    console = Console(highlight=False)
    try:
        screen.ask(_PRINTED)
        if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            console.print(screen.show())
        else:
            _run(screen, console, interval)
    except NoAnswer as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        sys.exit(130)


def _source(url: str | None, token_file: Path | None, *files: str) -> AdminClient:
    from gateway.config.settings import Address, SettingsError, load

    token = token_file.read_text().strip() if token_file is not None else None
    try:
        if url is None or token is None:
            settings = load()
            token = settings.admin_token if token is None else token
            address = next((each for each in map(Address.parse, settings.http) if not each.path), None)
            if url is None and address is None:
                raise click.UsageError("the setting http names no port; say where the gateway is by --url")
            url = url or f"http://{address}"
        return AdminClient(url, token, *files)
    except (SettingsError, FileError) as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None


def _run(screen: Screen, console: Console, interval: float) -> None:
    """Ask and show until somebody presses q.

    Raises:
        NoAnswer: the gateway refuses.
    """
    with keys.single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                screen.ask(max(_FEWEST, console.height - dashboard.HEAD))
                screen.fault = ""
            except NoAnswer as error:
                if error.is_refusal:
                    raise
                screen.fault = str(error)
            live.update(screen.show(_KEYS), refresh=True)
            for key in keys.wait_for_keys(interval):
                if key == "q":
                    return
                screen.view = screen.view.after(key)
