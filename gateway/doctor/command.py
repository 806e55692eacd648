"""`gateway doctor`: the options, and a line for each finding."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click
import trio

from gateway.config.settings import Settings, SettingsError, config_file, load

from .examine import examine, own_orders
from .finding import Finding, Level, Tell, fail, ok
from .orders import Credentials, Orders
from .places import HTTP, TCP, WEBSOCKET, Place

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _Of(click.ParamType[Place]):
    """An address of a kind."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        try:
            return value if isinstance(value, Place) else Place.of(self.name, str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--url", type=_Of(HTTP), help="Where pages come from: https://stomp.example.org")
@click.option("--websocket", type=_Of(WEBSOCKET), help="wss://host/ws; without it, /ws at --url.")
@click.option("--tcp", type=_Of(TCP), help="host:port, or stomps://host:port with TLS.")
@click.option("--login", default="", help="Who logs in.")
@click.option("--passcode-file", type=_FILE, help="File with the passcode.")
@click.option("--token-file", type=_FILE, help="File with a token (JWT), instead of a passcode.")
@click.option("--config", type=_FILE, help="The gateway's gateway.toml, if it is on this machine.")
@click.option("--nginx", type=_FILE, help="The proxy's nginx.conf, or the output of `nginx -T`, to be read.")
@click.option("--origin", default="", help="Origin of the page that opens the WebSocket, if it is another site's.")
@click.option("--ca", type=_FILE, help="Authorities in PEM that clients believe, instead of the system's.")
@click.option("--cert", type=_FILE, help="Certificate in PEM that clients show.")
@click.option("--key", type=_FILE, help="Its key, where that has a file of its own.")
@click.option("--user", default="", help="User that the gateway runs as; without it, whoever has its port.")
@click.option("--idle", type=click.FloatRange(0, 3600), default=30.0, show_default=True, help="Seconds of silence.")
@click.option("--patience", type=click.FloatRange(0.1, 600), default=10.0, show_default=True, help="Seconds to wait.")
@click.option("--message-size", type=click.IntRange(1024, 32 << 20), default=256 << 10, show_default=True)
@click.option("--pipeline", is_flag=True, help="Try Spark, too: see `gateway pipeline doctor`.")
@click.option("--json", "as_json", is_flag=True, help="Print an object of JSON a line.")
def doctor(
    url: Place | None,
    websocket: Place | None,
    tcp: Place | None,
    login: str,
    passcode_file: Path | None,
    token_file: Path | None,
    config: Path | None,
    nginx: Path | None,
    origin: str,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    user: str,
    idle: float,
    patience: float,
    message_size: int,
    pipeline: bool,
    as_json: bool,
) -> None:
    """Find what is wrong with a gateway and the proxy in front of it.

    It looks from outside, as clients do, and at the files, ports and limits of this machine where the settings are
    here.  Without --url, --websocket and --tcp it dials what the settings name.  It takes as long as --idle.

    Exit status: 0, or 1 where a line begins with FAIL.
    """
    worst: set[Level] = set()

    def tell(finding: Finding) -> None:
        worst.add(finding.level)
        click.echo(json.dumps(finding.json()) if as_json else str(finding))

    credentials = Credentials(login, _secret(passcode_file), _secret(token_file))
    if credentials.passcode and credentials.token:
        raise click.ClickException("--passcode-file and --token-file exclude each other: give one of them")
    settings = _settings(config, bool(url or websocket or tcp), tell)
    places = _places(url, websocket, tcp, settings)
    orders = Orders(
        http=next(iter(places[HTTP]), None),
        tcp=places[TCP],
        websocket=places[WEBSOCKET],
        credentials=credentials,
        settings=settings,
        origin=origin,
        authorities=ca,
        certificate=cert,
        key=key,
        idle=idle,
        patience=patience,
        size=message_size,
        user=user,
        nginx=nginx,
        pipeline=pipeline,
    )
    try:
        trio.run(examine, orders, tell)
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        raise click.Abort from None
    if Level.FAIL in worst:
        sys.exit(1)


def _places(
    url: Place | None, websocket: Place | None, tcp: Place | None, settings: Settings | None
) -> dict[str, tuple[Place, ...]]:
    """What to dial: what the operator names, or else what the settings do."""
    named = {HTTP: url, WEBSOCKET: websocket, TCP: tcp}
    if settings is not None and not any(named.values()):
        return own_orders(settings)
    if websocket is None and url is not None:
        path = "/ws" if settings is None else settings.websocket_path
        named[WEBSOCKET] = Place(WEBSOCKET, url.host, url.port, url.tls, path)
    return {kind: () if place is None else (place,) for kind, place in named.items()}


def _secret(path: Path | None) -> str:
    """The first line of a file.

    Raises:
        click.ClickException: it cannot be read, or is empty.
    """
    if path is None:
        return ""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise click.ClickException(f"{path} cannot be read as text") from None
    if not lines or not lines[0]:
        raise click.ClickException(f"{path} is empty")
    return lines[0]


def _settings(config: Path | None, has_places: bool, tell: Tell) -> Settings | None:
    """Those of this machine; None: there are none, or they are wrong."""
    if config is not None:
        os.environ["GATEWAY_CONFIG"] = str(config)
    named = [name for name, text in os.environ.items() if name.upper().startswith("GATEWAY_") and text]
    if has_places and not named and not config_file().is_file():
        tell(ok("settings", "none here; on the gateway's machine --config FILE looks at files, ports and limits, too"))
        return None
    try:
        return load()
    except SettingsError as error:
        tell(fail("settings", str(error), "The gateway would not start with them; change what it names"))
        return None
