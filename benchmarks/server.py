"""The server under test as a process: started on its own core, its CPU time and memory read from /proc.

The gateway is started as its users start it, `hypercorn -k trio gateway.app:app`, with everything else at its default,
in a directory of its own, where no `gateway.toml` has a say but that of the scenario, if any, and where its store
lies, if it has one.  Any other broker that runs already can be measured by its pid.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.link import Link
from benchmarks.machine import SERVER_CORE, on_any_core, on_core
from benchmarks.wire import DeliveryError, Transport

START_SECONDS, STOP_SECONDS = 20.0, 20.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_ROOT = Path(__file__).resolve().parent.parent


class ServerError(Exception):
    """The server does not start or has gone; the text holds the end of what it printed."""


@dataclass(frozen=True)
class Server:
    """A running broker: where it listens, and the root of its process tree.

    Attributes:
        started: seconds from its start until it answered a CONNECT; 0 where that was not seen.
        edges: processes below the root that have the sockets; 0: the root has them.
    """

    pid: int
    transports: dict[str, Transport]
    started: float = 0.0
    edges: int = 0

    def cpu(self) -> float:
        """Seconds of CPU that the process tree has used, user and system."""
        seconds = 0.0
        for pid in self._tree():
            with suppress(OSError):  # it ended meanwhile; its parent has its time then, and is not asked for that
                seconds += time.clock_gettime(_cpu_clock(pid))
        return seconds

    def cpu_of_primary(self) -> float:
        """The same of the root alone: with edges it is the primary."""
        return time.clock_gettime(_cpu_clock(self.pid))

    def stopwatch(self) -> Callable[[], float]:
        """Tells the seconds of CPU since now, of the processes that there are now; cheaper than `cpu` each time."""
        clocks = [_cpu_clock(pid) for pid in self._tree()]
        start = sum(map(time.clock_gettime, clocks))
        return lambda: sum(map(time.clock_gettime, clocks)) - start

    def resident(self) -> int:
        """Bytes of resident memory of the process tree."""
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._tree()) * _PAGE

    def peak(self) -> int:
        """Bytes that were resident at most so far; of several processes each at its own time."""
        return sum(int(_PEAK.findall(Path(f"/proc/{pid}/status").read_text())[0]) for pid in self._tree()) * 1024

    def _tree(self) -> list[int]:
        parents: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    parents.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it ended while we looked, so it is none of ours
        tree = [self.pid]
        for pid in tree:
            tree += parents.get(pid, [])
        return tree


@contextmanager
def gateway(
    settings: str = "",
    *,
    disk: Path | None = None,
    prepare: Callable[[Path], None] = lambda _: None,
    secured: bool = False,
    standby: bool = False,
    edges: int = 0,
    login: tuple[str, str] | None = None,
) -> Iterator[Server]:
    """Start the gateway on free ports, and end it by SIGTERM.

    Args:
        settings: text of its `gateway.toml`.
        disk: the folder in which it gets its own one; None: where temporary files are.
        prepare: puts into that one what shall be there at its start.
        secured: both transports carry TLS.
        standby: it is a node of a cluster that has its primary: it answers no CONNECT, and runs on any core.
        edges: so many processes have the sockets; all run on any core.
        login: with which it can be reached.

    Raises:
        ServerError: it does not answer a CONNECT in time, or ends by itself.
    """
    with tempfile.TemporaryDirectory(prefix="gateway-bench-", dir=disk) as directory:
        tcp, web, http = _free_ports(3)
        Path(directory, "gateway.toml").write_text(settings)
        prepare(Path(directory))
        authority = _write_certificates(Path(directory)) if secured else ""
        log = Path(directory, "log")
        with log.open("wb") as output:
            environment = _environment(tcp, web, "_tls" if secured else "") | {"GATEWAY_EDGES": str(edges)}
            with on_any_core() if standby or edges else on_core(SERVER_CORE):  # which the child inherits
                process = _start(_command(http), environment, directory, output.fileno())
        transports = {
            "tcp": Transport("127.0.0.1", tcp, "", login, authority),
            "ws": Transport("127.0.0.1", web, "/ws", login, authority),
        }
        try:
            started = 0.0 if standby else _await_welcome(process, transports["tcp"], log)
            yield Server(process.pid, transports, started, edges)
        except (OSError, DeliveryError) as error:
            if process.poll() is None:
                raise
            raise ServerError(f"the gateway ended with {process.returncode}:\n{_last_lines(log)}") from error
        finally:
            _stop(process)


def _command(port: int) -> list[str]:
    # No second process (-w 0): hypercorn's own would only import the application once more and wait.
    return [sys.executable, "-m", "hypercorn", "-k", "trio", "-w", "0", "-b", f"127.0.0.1:{port}", "gateway.app:app"]


def _write_certificates(folder: Path) -> str:
    """Certificate and key of the server; returns the file of their authority."""
    import trustme

    authority = trustme.CA()
    server = authority.issue_cert("localhost")
    for blob in server.cert_chain_pems:
        blob.write_to_path(folder / "server.pem", append=True)
    server.private_key_pem.write_to_path(folder / "server.key")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    return str(folder / "authority.pem")


def _environment(tcp: int, web: int, kind: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    return inherited | {
        "PYTHONPATH": str(_ROOT),
        "GATEWAY_TCP": "",
        "GATEWAY_WEBSOCKET": "",
        f"GATEWAY_TCP{kind.upper()}": f"127.0.0.1:{tcp}",
        f"GATEWAY_WEBSOCKET{kind.upper()}": f"127.0.0.1:{web}",
        "GATEWAY_TLS_CERTIFICATE": "server.pem",  # read only where there is TLS
        "GATEWAY_TLS_KEY": "server.key",
        "GATEWAY_LOG_LEVEL": "warning",
    }


def _start(command: list[str], environment: dict[str, str], directory: str, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output
    )


def _await_welcome(process: subprocess.Popen[bytes], transport: Transport, log: Path) -> float:
    """Seconds until a CONNECT was answered."""
    start = time.monotonic()
    while True:
        if process.poll() is not None:
            raise ServerError(f"the gateway ended with {process.returncode} at its start:\n{_last_lines(log)}")
        try:
            Link(transport).leave()
            return time.monotonic() - start
        except (OSError, DeliveryError) as error:
            if time.monotonic() > start + START_SECONDS:
                raise ServerError(f"the gateway does not answer: {error}\n{_last_lines(log)}") from error
        time.sleep(0.01)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; all are held at once, so that none comes twice."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def _cpu_clock(pid: int) -> int:
    """The clock of a process's CPU time, as clock_getcpuclockid(3) makes it: exact, where /proc counts 10 ms."""
    return ~pid << 3 | 2


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold blanks and brackets itself."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
