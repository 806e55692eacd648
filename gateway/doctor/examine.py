"""The order of the checks, and what they need of this machine: the settings, and the gateway's own listeners.

The checks of this machine come first, because a fault there explains others.  Those of silence run beside all others,
and their results come last.
"""

import os
from pathlib import Path

import trio

from gateway.config.errors import StartError
from gateway.config.settings import Settings, SettingsError, config_file, load
from gateway.runtime import listeners

from .clients import Connector, http_get, tls_context
from .connection_checks import check_connection, with_proxy_header
from .http_checks import check_http, check_token, is_of_standby
from .machine_checks import check_machine, check_pipeline
from .model import HTTP, CheckOptions, CheckReport, Problem, Target, own_targets
from .nginx_checks import check_nginx
from .stomp_checks import StompChecks


def settings_here(config: Path | None, has_targets: bool, report: CheckReport) -> Settings | None:
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


def targets_of(settings: Settings) -> dict[str, tuple[Target, ...]]:
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
        own = own_targets(settings)[HTTP][:1]
        is_standby = bool(settings.cluster and own) and await _is_standby(connector, own[0])
        check_machine(settings, options, report, await _is_alive(connector, settings), is_standby)
        if settings.archive is not None or settings.tables is not None or options.pipeline:
            # In a thread, because Spark takes long.
            await trio.to_thread.run_sync(check_pipeline, options.pipeline, report)
        if settings.cluster:
            from .cluster_checks import check_cluster

            await trio.to_thread.run_sync(check_cluster, settings, options, report)
    if options.nginx is not None:
        path = options.websocket[0].path if options.websocket else "/ws"
        check_nginx(options.nginx, path, options.setting("websocket_ping"), report)
    if options.token:
        check_token(options, report)
    if options.url is not None:
        target = await check_connection(connector, options.url, report, options.now())
        if target is not None:
            await check_http(connector, target, options, report)
    if options.url is not None and await _is_standby(connector, options.url):
        report.check("STOMP").ok("not checked, because this node is a standby")
        return
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


async def _is_standby(connector: Connector, target: Target) -> bool:
    """True if a standby of a cluster answers there."""
    try:
        return is_of_standby(await http_get(connector, target, "/readyz"))
    except Problem:
        return False
