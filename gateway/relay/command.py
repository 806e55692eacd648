"""`gateway relay`: the process.  Each direction has a thread; the main thread waits for signals and failures.

The service manager hears when the relay runs, and that it is alive, as long as the threads turn.

Exit status: 0 after SIGTERM, 130 after Ctrl-C, 1 and one sentence when a server refuses at the start, 2 usage.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

import click

from gateway.client import StompError, StompServer
from gateway.config.command_file import PlanError, http_address, read_passcode
from gateway.observe import logs
from gateway.observe.slim import structlog
from gateway.process import systemd

from . import settings
from .monitoring import HttpError, RelayStatus, not_alive, serving
from .pump import Pump
from .settings import RelayConfig

log = structlog.get_logger("gateway.relay")

# Seconds for messages in flight.  They are safe at the source, because none is acknowledged too early.
_LAST_WORDS = 10.0
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_STATUS = {signal.SIGTERM: 0, signal.SIGINT: 130}
_OF_A_SIDE = (
    ("passcode-file", f"A file with the passcode; without it, {settings.FROM_PASSCODE} or {settings.TO_PASSCODE}."),
    ("ca", "Certificates to trust instead of the system's."),
    ("cert", "The client certificate."),
    ("key", "Its key, if it has a file of its own."),
    ("vhost", "The header `host` of CONNECT; RabbitMQ wants / here."),
)
_VARIABLES = {"from": settings.FROM_PASSCODE, "to": settings.TO_PASSCODE}


def _of_sides(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command the options of both servers."""
    for name, text in reversed(_OF_A_SIDE):
        for side in ("to", "from"):
            kind: dict[str, Any] = {"default": ""} if name == "vhost" else {"type": _FILE}
            command = click.option(f"--{side}-{name}", help=text, **kind)(command)
    return command


@click.command()
@click.argument("destinations", nargs=-1, metavar="[SOURCE[=TARGET]]...")
@click.option("--from", "source", default="", metavar="URL", help="The source: stomp://user@host:port.")
@click.option("--to", "target", default="", metavar="URL", help="The target; stomps for TLS.")
@click.option("--config", type=_FILE, help="A file with [[relay]] tables instead of options, but for the log's.")
@_of_sides
@click.option("--client-id", default="", help="The header `client-id` of CONNECT for --from.")
@click.option("--durable", is_flag=True, help="Subscriptions to topics outlive the connection.")
@click.option("--prefetch", default=settings.PREFETCH, show_default=True, help="Most messages of one SOURCE in flight.")
@click.option("--name", default="", help="Its name in the header `relayed`; by default both addresses.")
@click.option("--http", default="", metavar="HOST:PORT", help="Serve /healthz, /readyz and /metrics there.")
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
    **options: Any,
) -> None:
    """Take messages from one STOMP server and send them to another, until SIGTERM or Ctrl-C.

    A message is acknowledged at its source when the target has confirmed it.  TARGET is the destination of SOURCE's
    messages; without it, they go to the destination that they were sent to.

    Exit status: 0 after SIGTERM; 130 after Ctrl-C; 1 when a server refuses login or destination at the start.
    """
    try:
        if config is not None:
            if destinations or source or target or any(_given(name) for name in options):
                raise click.UsageError("--config goes with the options of the log only: write all else into its file")
            orders = settings.read(config)
        else:
            orders = _of_options(destinations, source, target, **options)
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
    client_id: str,
    durable: bool,
    prefetch: int,
    name: str,
    http: str,
    **of_sides: Any,
) -> RelayConfig:
    if not source or not target:
        raise PlanError("--from and --to are needed, or --config")
    sides: list[StompServer] = []
    for side, url in (("from", source), ("to", target)):
        file = of_sides[f"{side}_passcode_file"]
        passcode = os.environ.get(_VARIABLES[side], "") if file is None else read_passcode(file)
        more = {key: of_sides[f"{side}_{key}"] for key in ("ca", "cert", "key", "vhost")}
        sides.append(settings.server(url, passcode, _VARIABLES[side], **more))
    first, second = sides
    plan = settings.make(
        first, second, destinations, name=name, prefetch=prefetch, durable=durable, client_id=client_id
    )
    return RelayConfig((plan,), http_address(http, settings.EXAMPLE))


def _run(orders: RelayConfig) -> int:
    """Relay until a signal; returns the exit status."""
    # Unlike an Event, the queue may be used by a signal's handler while the same thread waits for it.
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
    """Wait for a signal or a failure, and report to the service manager meanwhile."""
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
