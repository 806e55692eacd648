"""`gateway store backup`: a copy of the store of a gateway that runs.

The copy appears at its name when it is complete and checked: no reader ever sees a part of one.
"""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from gateway.cli.admin_client import AdminClient, NoAnswer, admin_client_of
from gateway.config.values import duration_like

_NAME = re.compile(r"store-\d{8}T\d{6}Z\.db")


@click.command("backup")
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--every",
    type=duration_like("like 1h or 30min", least=1.0),
    help="Go on: FILE is a folder, and each copy a file in it.",
)
@click.option("--keep", type=click.IntRange(1), default=7, show_default=True, help="With --every: the copies to keep.")
@click.option("--url", help="The gateway's HTTP address; by default that of the setting `http`.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the admin token; by default the setting `admin_token` (GATEWAY_ADMIN_TOKEN).",
)
@click.option("--ca", default="", metavar="FILE", help="Certificates to trust instead of the system's.")
def backup(target: Path, every: float | None, keep: int, url: str | None, token_file: Path | None, ca: str) -> None:
    """Copy the store of a running gateway into FILE, and check the copy.

    The copy has all that was committed when it began.  Clients notice nothing.  A file that is there is not replaced.

    Exit status: 0 when the copy is whole; 1 with the reason why there is none.
    """
    client = admin_client_of(url, token_file, ca, "", "")
    if every is None:
        click.echo(f"made {target}: {_make(target, client)} bytes, whole")
        return
    if not target.is_dir():
        raise click.BadParameter(f"{target} is no folder: with --every each copy is a file in it")
    while True:
        began = time.monotonic()
        _make_next(target, keep, client)
        time.sleep(max(0.0, every - (time.monotonic() - began)))


def _make(path: Path, client: AdminClient) -> int:
    """Make one copy; returns its size.  Raises click.ClickException: there is none."""
    from gateway.stores import StoreError, file, tools

    try:
        if path.exists():
            raise click.ClickException(f"{path} is there: name another file")
        with file.made_whole(path) as new:
            with new.open("wb") as out:
                client.download("store/backup", out)
            findings = tools.check(new)
            if findings:
                raise click.ClickException(f"the copy is not whole: {findings[0]}")
    except FileExistsError:
        raise click.ClickException(f"{path} is there: name another file") from None
    except (StoreError, NoAnswer) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
    return path.stat().st_size


def _make_next(folder: Path, keep: int, client: AdminClient) -> None:
    """Make the next of several copies, and delete the oldest; a failure is told, and the next one may succeed."""
    path = folder / f"store-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.db"
    try:
        size = _make(path, client)
    except click.ClickException as error:
        click.echo(f"no copy: {error.message}", err=True)
        return
    click.echo(f"made {path}: {size} bytes, whole")
    sys.stdout.flush()
    copies = sorted(each for each in folder.iterdir() if _NAME.fullmatch(each.name))
    for old in copies[:-keep]:
        old.unlink()
