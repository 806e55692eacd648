"""What happens in the container of `image`: started by it, alone in its network, and as root until the last moment.

The gateway gets a user, becomes healthy, has a client, is stopped; and its file system is tried.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DEADLINE = 60.0
_TRY = """
import os, sys
for place in ("/etc/stomp-gateway/x", "/opt/stomp-gateway/x", "/var/lib/x", "/tmp/x", "/var/lib/stomp-gateway/x"):
    try:
        open(place, "w").close()
    except OSError:
        continue
    print(place)
"""


def main(facts: dict[str, Any]) -> None:
    """Print what was seen, as one line of JSON."""
    _switch_on("lo")
    _mount(facts)
    passwd = [*facts["command"], "passwd", f"{facts['state']}/users.txt", "ada"]
    subprocess.run(
        _inside(facts, passwd), input=b"engine\n", check=True, stdout=subprocess.DEVNULL, env=facts["variables"]
    )
    writable = subprocess.run(
        _inside(facts, ["python", "-c", _TRY]), check=True, capture_output=True, text=True, env=facts["variables"]
    )
    process = subprocess.Popen(_inside(facts, [*facts["command"], *facts["arguments"]]), env=facts["variables"])
    try:
        _await_health(facts, process)
        greeting = _greeting()
        rights = _rights(process.pid)
    finally:
        process.send_signal(getattr(signal, facts["signal"]))
        status = process.wait(DEADLINE)
    seen = {"writable": writable.stdout.split(), "greeting": greeting, "rights": rights, "status": status}
    print(json.dumps(seen))


def _switch_on(interface: str) -> None:
    """A network of its own begins with nothing, not even loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", interface.encode(), 1)  # IFF_UP
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def _mount(facts: dict[str, Any]) -> None:
    root = facts["root"]
    for words in (
        ["-t", "overlay", "overlay", "-o", facts["layers"], root],
        ["-o", "remount,ro", root],
        ["--rbind", "/proc", f"{root}/proc"],
        ["--rbind", "/dev", f"{root}/dev"],
        ["-t", "tmpfs", "tmpfs", f"{root}/tmp"],
        ["--bind", facts["volume"], root + facts["state"]],
    ):
        subprocess.run(["mount", *words], check=True)


def _inside(facts: dict[str, Any], command: list[str]) -> list[str]:
    user, _, group = facts["user"].partition(":")
    bound = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs"]
    bound += ["--bounding-set", "-all", "--inh-caps", "-all"]
    enter = ["chroot", facts["root"], *bound, "sh", "-c", 'cd "$0" && exec "$@"', facts["cwd"]]
    return [*enter, *command]


def _await_health(facts: dict[str, Any], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE
    while subprocess.run(
        _inside(facts, facts["health"]), capture_output=True, env=facts["variables"], check=False
    ).returncode:
        assert process.poll() is None, "the gateway has ended"
        assert time.monotonic() < deadline, "the gateway never was healthy"
        time.sleep(0.1)


def _rights(pid: int) -> list[str]:
    """Its user, and what it could do and could ever get to do."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("Uid", "CapEff", "CapBnd"))]


def _greeting() -> str:
    with socket.create_connection(("127.0.0.1", 61613), timeout=DEADLINE) as client:
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:ada\npasscode:engine\n\n\0")
        return client.recv(4096).decode().split("\n")[0]


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    main(json.loads(sys.argv[1]))
