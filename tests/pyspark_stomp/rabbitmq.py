"""A RabbitMQ of its own for tests: a node on loopback with `rabbitmq_stomp`, in a folder that goes with it.

Debian's package brings it (`rabbitmq-server`); its system service is not used and need not run.  The node, and `epmd`,
by which Erlang's nodes find each other, are children of this process and end with it; otherwise `epmd` would be left
behind for all time.

RabbitMQ does nothing about `dedup-id`, and its `message-id` changes when a message is delivered again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gateway.client import Client
from pyspark_stomp.errors import ConnectionLost
from pyspark_stomp.options import Options
from tests.gateway_process import HOST, free_ports

# The script behind the one in PATH, which insists on the system's user and folders.
_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
# What a client tells it beside its port.
LOGIN = {"login": "guest", "passcode": "guest", "vhost": "/"}
_START = 60.0
_STOP = 20.0


def is_installed() -> bool:
    return _SCRIPT.exists() and shutil.which("epmd") is not None


def _environment(folder: Path) -> tuple[int, dict[str, str]]:
    """The STOMP port, and all that the node is told."""
    stomp, amqp, distribution, epmd = free_ports(4)
    config = f"listeners.tcp.1 = {HOST}:{amqp}\nstomp.listeners.tcp.1 = {HOST}:{stomp}\nlog.file = false\n"
    config += "log.console = true\nlog.console.level = warning\ndisk_free_limit.absolute = 1MB\n"
    (folder / "rabbitmq.conf").write_text(config)
    (folder / "plugins").write_text("[rabbitmq_stomp].\n")
    own = {
        "HOME": str(folder),  # Erlang keeps its cookie there
        "RABBITMQ_NODENAME": f"tests-{os.getpid()}-{stomp}@localhost",
        "RABBITMQ_NODE_PORT": str(amqp),
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_BASE": str(folder),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
        "ERL_EPMD_PORT": str(epmd),
        "ERL_EPMD_ADDRESS": HOST,
        "LANG": "C.UTF-8",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    return stomp, kept | own


@contextmanager
def _child(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the script would leave the node behind
            process.wait()


@contextmanager
def running_rabbitmq(folder: Path) -> Iterator[int]:
    """The STOMP port of a node, for the time of the block, in a folder that is there and empty."""
    stomp, environment = _environment(folder)
    with ExitStack() as stack:
        stack.enter_context(_child(["epmd", "-port", environment["ERL_EPMD_PORT"]], folder, environment))
        node = stack.enter_context(_child([str(_SCRIPT)], folder, environment))
        options = Options.of({"host": HOST, "port": str(stomp), **LOGIN})
        deadline = time.monotonic() + _START
        while True:
            try:
                Client(options.server()).disconnect()
                break
            except ConnectionLost:
                output = (folder / "output").read_text(errors="replace")[-3000:]
                assert node.poll() is None, f"RabbitMQ ended with status {node.returncode}:\n{output}"
                assert time.monotonic() < deadline, f"RabbitMQ is not ready after {_START} s:\n{output}"
            time.sleep(0.05)
        yield stomp
