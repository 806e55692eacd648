"""`gateway archive`: the archiver as a process of its own.

A pass archives the due segments and deletes old files; then it sleeps.  SIGTERM and Ctrl-C end it after the file in
work; a second one ends it at once, which harms nothing.  pyarrow is imported after the options are read.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from gateway.config.values import SHORTEST_INTERVAL, duration_like, size

from .layout import ArchiveError

if TYPE_CHECKING:
    from .archiver import ArchivedFile, Archiver

NEEDED = "pip install 'stomp-gateway[pipeline]'"
_DURATION = duration_like("60s, 5m, 48h or 90d")
_INTERVAL = duration_like("60s, 5m, 48h or 90d", SHORTEST_INTERVAL)


@click.command()
@click.option("--journal", metavar="DIR", help="Folder of the journal; else the setting `journal`.")
@click.option("--archive", "target", metavar="DIR", help="Folder of the archive; else the setting `archive`.")
@click.option("--once", is_flag=True, help="Archive all complete segments, and end.")
@click.option("--interval", type=_INTERVAL, default="2s", show_default=True, help="Pause between two looks.")
@click.option(
    "--roll",
    type=_DURATION,
    default="60s",
    show_default=True,
    help="How long a row may wait for others of its file.",
)
@click.option(
    "--max-bytes",
    type=size,
    default="64MiB",
    metavar="BYTES",
    show_default=True,
    help="Segments of so many bytes become a file at once.",
)
@click.option(
    "--raw-retention",
    type=_DURATION,
    default="48h",
    show_default=True,
    help="How long a raw file stays after `gateway pipeline compact`.",
)
@click.option("--history-retention", type=_DURATION, help="How long an hour of history stays; else for ever.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each file.")
def archive(
    journal: str | None,
    target: str | None,
    once: bool,
    interval: float,
    roll: float,
    max_bytes: int,
    raw_retention: float,
    history_retention: float | None,
    as_json: bool,
) -> None:
    """Archive the journal as Parquet files, until SIGTERM or Ctrl-C.

    Each row is in the archive once, wherever this is killed.  Exit status: 0 done, 1 something failed, 2 usage, 3
    pyarrow is missing.
    """
    source, place = Path(_place("journal", journal)), Path(_place("archive", target))
    if not source.is_dir():
        raise click.UsageError(f"--journal {source} is no folder; a gateway with the setting `journal` makes it")
    if place.exists() and not place.is_dir():
        raise click.UsageError(f"--archive {place} is no folder")
    try:
        from .archiver import Archiver, ArchiverOptions
        from .compact import Expiry
    except ImportError as error:
        click.echo(f"Error: {error.name} cannot be imported: {NEEDED}", err=True)
        sys.exit(3)

    def tell(what: ArchivedFile) -> None:
        if as_json:
            click.echo(json.dumps(what.json(), separators=(",", ":")))
        else:
            click.echo(str(what), err=True)

    expire = Expiry(place, raw_retention, history_retention, _warn)
    try:
        with _stopping() as stop:
            options = ArchiverOptions(roll, max_bytes, tell, _warn, stop.is_set)
            with Archiver(source, place, options) as archiver:
                good = _work(archiver, expire, stop, once=once, interval=interval)
    except ArchiveError as error:
        raise click.ClickException(str(error)) from None
    if once and not good:
        sys.exit(1)


def _work(
    archiver: Archiver, expire: Callable[[bool], bool], stop: threading.Event, *, once: bool, interval: float
) -> bool:
    """Pass after pass; True if nothing failed in the last one."""
    while True:
        good = archiver.step(everything=once)
        if not stop.is_set():
            good = expire(once) and good
        if once or stop.wait(interval):
            return good


def _warn(sentence: str) -> None:
    click.echo(sentence, err=True)


def _place(name: str, option: str | None) -> str:
    """A folder: the option, or else the setting."""
    if option:
        return option
    from gateway.config.settings import SettingsError, config_file, load

    try:
        told: Path | None = getattr(load(), name)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    if told is None:
        place = f"{config_file()} or GATEWAY_{name.upper()}"
        raise click.UsageError(f"--{name} is missing: give it, or set {name} in {place}")
    return str(told)


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or Ctrl-C sets; the second signal has its usual effect."""
    event = threading.Event()
    # Known before the first of them is set: a signal may come between the two.
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}

    def stop(number: int, frame: FrameType | None) -> None:
        restore()
        event.set()

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    for each in before:
        signal.signal(each, stop)
    try:
        yield event
    finally:
        restore()
