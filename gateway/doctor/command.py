"""`gateway doctor`: the options, and a line for each result.  `examine` has the checks, and is imported to run them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.config.values import duration_like, size

if TYPE_CHECKING:
    from .model import Target

_HTTP, _TCP, _WEBSOCKET = "http", "tcp", "websocket"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_IDLE, _PATIENCE = duration_like("30s or 5m", 0, 3600), duration_like("10s or 1m", 0.1, 600)


def _message_size(text: str) -> int:
    found = size(text)
    if not 1024 <= found <= 32 << 20:
        raise click.BadParameter(f"{text[:80]!r} must be from 1KiB to 32MiB")
    return found


class _TargetType(click.ParamType["Target"]):
    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        from .model import Target

        try:
            return Target.parse(self.name, str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--url", type=_TargetType(_HTTP), help="Where pages come from: https://stomp.example.org")
@click.option("--websocket", type=_TargetType(_WEBSOCKET), help="wss://host/ws; without it, /ws at --url.")
@click.option("--tcp", type=_TargetType(_TCP), help="host:port, or stomps://host:port with TLS.")
@click.option("--login", default="", help="User name for CONNECT.")
@click.option("--passcode-file", type=_FILE, help="A file with the passcode.")
@click.option("--token-file", type=_FILE, help="A file with a token (JWT), instead.")
@click.option("--config", type=_FILE, help="The gateway's gateway.toml, if it is on this machine.")
@click.option("--nginx", type=_FILE, help="The proxy's nginx.conf, or the output of `nginx -T`.")
@click.option("--origin", default="", help="Origin of the page, if it is another site's.")
@click.option("--ca", type=_FILE, help="Certificates to trust instead of the system's.")
@click.option("--cert", type=_FILE, help="The client certificate.")
@click.option("--key", type=_FILE, help="Its key, if it has a file of its own.")
@click.option("--user", default="", help="User of the gateway; without it, that of its process.")
@click.option("--idle", type=_IDLE, default="30s", show_default=True, help="How long a silent connection is held.")
@click.option("--patience", type=_PATIENCE, default="10s", show_default=True, help="How long to wait for an answer.")
@click.option(
    "--message-size", type=_message_size, default="256KiB", metavar="BYTES", show_default=True, help="Of a message."
)
@click.option("--pipeline", is_flag=True, help="Try Spark, too: see `gateway pipeline doctor`.")
@click.option("--json", "as_json", is_flag=True, help="Print an object of JSON a line.")
def doctor(
    url: Target | None,
    websocket: Target | None,
    tcp: Target | None,
    passcode_file: Path | None,
    token_file: Path | None,
    config: Path | None,
    as_json: bool,
    **others: Any,
) -> None:
    """Find what is wrong with a gateway and the proxy in front of it.

    The doctor connects as clients do, without --url, --websocket and --tcp to the listeners of the settings.  On the
    gateway's machine it also checks files, ports and limits.  It takes as long as --idle.

    Exit status: 0, or 1 where a line begins with FAIL.
    """
    import trio

    from . import examine
    from .model import CheckOptions, CheckReport, Target

    report = CheckReport(lambda result: click.echo(json.dumps(asdict(result)) if as_json else str(result)))
    passcode, token = _first_line(passcode_file), _first_line(token_file)
    if passcode and token:
        raise click.ClickException("--passcode-file and --token-file exclude each other: give one of them")
    named = {_HTTP: url, _WEBSOCKET: websocket, _TCP: tcp}
    has_targets = any(named.values())
    settings = examine.settings_here(config, has_targets, report)
    if websocket is None and url is not None:
        path = "/ws" if settings is None else settings.websocket_path
        named[_WEBSOCKET] = Target(_WEBSOCKET, url.host, url.port, url.tls, path)
    targets = {kind: tuple(filter(None, [target])) for kind, target in named.items()}
    if settings is not None and not has_targets:
        targets = examine.targets_of(settings)
    options = CheckOptions(
        url=next(iter(targets[_HTTP]), None),
        websocket=targets[_WEBSOCKET],
        tcp=targets[_TCP],
        passcode=passcode,
        token=token,
        settings=settings,
        **others,
    )
    if options.idle and any(targets.values()) and not as_json:
        click.echo(f"at the end, connections are held for {options.idle:g} s; --idle 0 leaves that out", err=True)
    try:
        trio.run(examine.examine, options, report)
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        raise click.Abort from None
    if report.has_failures:
        sys.exit(1)


def _first_line(path: Path | None) -> str:
    """The secret in a file; raises ClickException where there is none."""
    if path is None:
        return ""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise click.ClickException(f"{path} cannot be read as text") from None
    if not lines or not lines[0]:
        raise click.ClickException(f"{path} is empty")
    return lines[0]
