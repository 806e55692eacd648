"""`gateway relay`: the process.  Each direction has a thread of its own; this one waits for signals and for failures.

A service manager hears when it runs, and that it lives, as long as the threads turn (`gateway.process.systemd`).

Exit status: 0 after SIGTERM, 130 after Ctrl-C, 1 and one sentence when a server refuses at the start, 2 usage.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

import click
import structlog

from gateway.client import StompError, StompServer
from gateway.observe import logs
from gateway.process import systemd

from . import settings
from .http import HttpError, serving
from .pump import Pump
from .settings import PlanError, RelayConfig
from .status import RelayStatus, not_alive

log = structlog.get_logger("gateway.relay")

# Seconds for what is under way.  It is safe to end without: nothing is acknowledged too early.
_LAST_WORDS = 10.0
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_STATUS = {signal.SIGTERM: 0, signal.SIGINT: 130}
_PASSCODE_HELP = "A file that holds the passcode of --{}; else {} does."
_CA_HELP = "Certificates to trust for --{} instead of the system's."
_CERT_HELP = "The certificate to show to --{}."
_KEY_HELP = "The key of --{}-cert, where it has a file of its own."
_VHOST_HELP = "The header `host` of CONNECT for --{}; RabbitMQ wants / here."


@click.command()
@click.argument("destinations", nargs=-1, metavar="[SOURCE[=TARGET]]...")
@click.option("--from", "source", default="", metavar="URL", help="Where messages come from: stomp://user@host:port.")
@click.option("--to", "target", default="", metavar="URL", help="Where they go; stomps for TLS.")
@click.option("--config", type=_FILE, help="A file with tables [[relay]], in place of all options but the log's.")
@click.option("--from-passcode-file", type=_FILE, help=_PASSCODE_HELP.format("from", settings.FROM_PASSCODE))
@click.option("--to-passcode-file", type=_FILE, help=_PASSCODE_HELP.format("to", settings.TO_PASSCODE))
@click.option("--from-ca", type=_FILE, help=_CA_HELP.format("from"))
@click.option("--to-ca", type=_FILE, help=_CA_HELP.format("to"))
@click.option("--from-cert", type=_FILE, help=_CERT_HELP.format("from"))
@click.option("--from-key", type=_FILE, help=_KEY_HELP.format("from"))
@click.option("--to-cert", type=_FILE, help=_CERT_HELP.format("to"))
@click.option("--to-key", type=_FILE, help=_KEY_HELP.format("to"))
@click.option("--from-vhost", default="", help=_VHOST_HELP.format("from"))
@click.option("--to-vhost", default="", help=_VHOST_HELP.format("to"))
@click.option("--client-id", default="", help="The header `client-id` of CONNECT for --from.")
@click.option("--durable", is_flag=True, help="Subscriptions to topics outlive the connection.")
@click.option(
    "--prefetch",
    default=settings.PREFETCH,
    show_default=True,
    help="Messages of one SOURCE that are under way, at most.",
)
@click.option("--name", default="", help="The relay's name in the header `relayed`; else both servers' addresses.")
@click.option("--http", default="", metavar="HOST:PORT", help="Where /healthz, /readyz and /metrics are; else nowhere.")
@click.option("--log-format", type=click.Choice(["auto", "json", "human"]), default="auto", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def relay(
    destinations: tuple[str, ...],
    source: str,
    target: str,
    config: Path | None,
    log_format: str,
    log_level: str,
    **options: object,
) -> None:
    """Take messages from one STOMP server and give them to another, until SIGTERM or Ctrl-C.

    A message is acknowledged where it came from when the other server has confirmed it.  TARGET is where SOURCE's
    messages go; without it, where they were sent to.

    Exit status: 0 after SIGTERM; 130 after Ctrl-C; 1 and one sentence when a server refuses login or destination at the
    start.
    """
    try:
        if config is not None:
            if destinations or source or target or any(_given(name) for name in options):
                raise click.UsageError("--config has everything in its file, but for the options of the log")
            orders = settings.read(config)
        else:
            orders = _of_options(destinations, source, target, **options)  # type: ignore[arg-type]
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    logs.configure(log_format, log_level)
    sys.exit(_run(orders))


def _given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _of_options(
    destinations: tuple[str, ...],
    source: str,
    target: str,
    from_passcode_file: Path | None,
    to_passcode_file: Path | None,
    client_id: str,
    durable: bool,
    prefetch: int,
    name: str,
    http: str,
    **of_sides: Path | str | None,
) -> RelayConfig:
    if not source or not target:
        raise PlanError("--from and --to are needed, or --config")
    sides: list[StompServer] = []
    for side, url, file, variable in (
        ("from", source, from_passcode_file, settings.FROM_PASSCODE),
        ("to", target, to_passcode_file, settings.TO_PASSCODE),
    ):
        passcode = os.environ.get(variable, "") if file is None else settings.read_passcode(file)
        more = {key: of_sides[f"{side}_{key}"] for key in ("ca", "cert", "key", "vhost")}
        sides.append(settings.server(url, passcode, variable, **more))  # type: ignore[arg-type]
    first, second = sides
    plan = settings.make(
        first, second, destinations, name=name, prefetch=prefetch, durable=durable, client_id=client_id
    )
    return RelayConfig((plan,), settings.http_address(http))


def _run(orders: RelayConfig) -> int:
    """Relay until a signal; the status."""
    # The queue, unlike an Event, may be used by a signal's handler while the same thread waits for it.
    news: SimpleQueue[int | str] = SimpleQueue()

    def tell(number: int, _frame: FrameType | None) -> None:
        news.put(number)

    before = {number: signal.signal(number, tell) for number in _STATUS}
    stop = threading.Event()
    pumps = [Pump(plan, stop) for plan in orders.plans]
    every = [pump.status for pump in pumps]
    try:
        with serving(orders.http, every):
            threads = [threading.Thread(target=_pump, args=(pump, news), daemon=True) for pump in pumps]
            for thread in threads:
                thread.start()
            systemd.ready("relaying")
            first = _first(news, every)
        systemd.stopping()
        stop.set()
        deadline = time.monotonic() + _LAST_WORDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    except HttpError as error:
        raise click.ClickException(str(error)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if isinstance(first, str):
        raise click.ClickException(first)
    return _STATUS[signal.Signals(first)]


def _first(news: SimpleQueue[int | str], every: list[RelayStatus]) -> int | str:
    """Wait for a signal or a failure, and show signs of life."""
    between = systemd.watchdog()
    while True:
        if not not_alive(every):
            systemd.alive()
        try:
            return news.get(timeout=between or None)
        except Empty:
            pass


def _pump(pump: Pump, news: SimpleQueue[int | str]) -> None:
    try:
        pump.run()
    except StompError as error:
        news.put(f"cannot relay: {error}")
    except Exception as error:
        log.exception("the relay failed")
        news.put(f"the relay failed: {type(error).__name__}: {error}")
