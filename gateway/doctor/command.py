"""`gateway doctor`: the options, the order of the checks, and a line for each result.

The checks of this machine come first, because a fault there explains others.  Those of silence run beside all others,
and their results come last.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import trio

from gateway.config.errors import StartError
from gateway.config.settings import Settings, SettingsError, config_file, load
from gateway.runtime import listeners

from .clients import Connector, http_get, tls_context
from .connection_checks import check_connection, with_proxy_header
from .http_checks import check_http, check_token
from .machine_checks import check_machine, check_pipeline
from .model import HTTP, TCP, WEBSOCKET, CheckOptions, CheckReport, Problem, Target, own_targets
from .nginx_checks import check_nginx
from .stomp_checks import StompChecks

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _TargetType(click.ParamType[Target]):
    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        try:
            return Target.parse(self.name, str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--url", type=_TargetType(HTTP), help="Where pages come from: https://stomp.example.org")
@click.option("--websocket", type=_TargetType(WEBSOCKET), help="wss://host/ws; without it, /ws at --url.")
@click.option("--tcp", type=_TargetType(TCP), help="host:port, or stomps://host:port with TLS.")
@click.option("--login", default="", help="User name for CONNECT.")
@click.option("--passcode-file", type=_FILE, help="File with the passcode.")
@click.option("--token-file", type=_FILE, help="File with a token (JWT), instead of a passcode.")
@click.option("--config", type=_FILE, help="The gateway's gateway.toml, if it is on this machine.")
@click.option("--nginx", type=_FILE, help="The proxy's nginx.conf, or the output of `nginx -T`, to be read.")
@click.option("--origin", default="", help="Origin of the page, if it is another site's.")
@click.option("--ca", type=_FILE, help="Authorities to trust instead of the system's.")
@click.option("--cert", type=_FILE, help="Client certificate in PEM.")
@click.option("--key", type=_FILE, help="The key of --cert, if it has a file of its own.")
@click.option("--user", default="", help="User that the gateway runs as; without it, the user of its process.")
@click.option("--idle", type=click.FloatRange(0, 3600), default=30.0, show_default=True, help="Seconds of silence.")
@click.option("--patience", type=click.FloatRange(0.1, 600), default=10.0, show_default=True, help="Seconds to wait.")
@click.option(
    "--message-size", type=click.IntRange(1024, 32 << 20), default=256 << 10, show_default=True, help="Bytes."
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
    report = CheckReport(lambda result: click.echo(json.dumps(asdict(result)) if as_json else str(result)))
    passcode, token = _first_line(passcode_file), _first_line(token_file)
    if passcode and token:
        raise click.ClickException("--passcode-file and --token-file exclude each other: give one of them")
    named = {HTTP: url, WEBSOCKET: websocket, TCP: tcp}
    has_targets = any(named.values())
    settings = _settings(config, has_targets, report)
    if websocket is None and url is not None:
        path = "/ws" if settings is None else settings.websocket_path
        named[WEBSOCKET] = Target(WEBSOCKET, url.host, url.port, url.tls, path)
    targets = {kind: tuple(filter(None, [target])) for kind, target in named.items()}
    if settings is not None and not has_targets:
        targets = _own_targets(settings)
    options = CheckOptions(
        url=next(iter(targets[HTTP]), None),
        websocket=targets[WEBSOCKET],
        tcp=targets[TCP],
        passcode=passcode,
        token=token,
        settings=settings,
        **others,
    )
    try:
        trio.run(examine, options, report)
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


def _settings(config: Path | None, has_targets: bool, report: CheckReport) -> Settings | None:
    """The settings of this machine; None: there are none, or they are wrong."""
    check = report.check("settings")
    if config is not None:
        os.environ["GATEWAY_CONFIG"] = str(config)
    is_set = any(value for name, value in os.environ.items() if name.upper().startswith("GATEWAY_"))
    if has_targets and not is_set and not config_file().is_file():
        detail = "none here; on the gateway's machine --config FILE adds checks of files, ports and limits"
        check.ok(detail)
        return None
    try:
        return load()
    except SettingsError as error:
        check.fail(str(error), "The gateway would not start with them; change the setting that is named")
        return None


def _own_targets(settings: Settings) -> dict[str, tuple[Target, ...]]:
    """The gateway's own listeners, with a name of its certificate, which is not for this machine's addresses."""
    try:
        certificates = listeners.read_certificates(settings)
    except StartError:
        certificates = None
    return own_targets(settings, certificates.hosts if certificates is not None else ())


async def examine(options: CheckOptions, report: CheckReport) -> None:
    """Run all checks that the options name."""
    tls = None
    with report.check("certificates"):
        tls = tls_context(options.ca, options.cert, options.key)
    if tls is None:
        return
    connector, settings = Connector(options.patience, tls, options.cert), options.settings
    if settings is not None:
        check_machine(settings, options, report, await _is_alive(connector, settings))
        if settings.archive is not None or settings.tables is not None or options.pipeline:
            # In a thread, because Spark takes long.
            await trio.to_thread.run_sync(check_pipeline, options.pipeline, report)
    if options.nginx is not None:
        path = options.websocket[0].path if options.websocket else "/ws"
        check_nginx(options.nginx, path, options.setting("websocket_ping"), report)
    if options.token:
        check_token(options, report)
    if options.url is not None:
        target = await check_connection(connector, options.url, report, options.now())
        if target is not None:
            await check_http(connector, target, options, report)
    async with trio.open_nursery() as nursery:
        for each in (*options.websocket, *options.tcp):
            sender = await with_proxy_header(connector, each, options, report)
            if sender is None:
                continue
            target = await check_connection(sender, each, report, options.now())
            if target is not None:
                await StompChecks(sender, target, options, report).run(nursery)


async def _is_alive(connector: Connector, settings: Settings) -> bool:
    """True if a gateway answers at the HTTP port of the settings."""
    try:
        health = await http_get(connector, own_targets(settings)[HTTP][0], "/healthz")
    except (Problem, IndexError):
        return False
    return health.status == 200 and b'"alive"' in health.body
