"""A machine for one page: its commands run word for word, as root, and nobody else sees what they do.

It is this machine with a layer over its files, and with a network and processes of its own.  So a page has the ports,
names and places that it speaks of, `pkill` finds what the page has started, and all of it ends with the shell.

What a reader has and a test has not, is made here: the name broker.example.org, the sources beside him, and
`systemctl` and `journalctl`, since no systemd runs.  The gateway is the reader's first terminal: it runs behind the
shell.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PATIENCE = 40
"""Seconds that most commands may show nothing."""
FOLDER = "/srv/reader"
"""Where the reader is: empty, but for links to what the sources have."""
ADDRESS = "192.0.2.10"
"""Where the world finds this machine, as broker.example.org."""
_DONE = "-- done --"
# $1 holds the layers, $2 is the public address.  What is mounted here goes with the namespace.
_ENTER = """
set -e
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
ip link set lo up
ip address add "$2/32" dev lo
exec chroot "$1/root" bash
"""
_READY = "until curl -fs -o /dev/null http://127.0.0.1:8000/readyz; do kill -0 $1 && sleep 0.05 || exit 1; done"

_RELOADED = "until [ $(grep -c reloaded gateway.log) -gt $1 ]; do sleep 0.05; done"


class Machine:
    """A shell that stays: what is exported is there for the next command.

    Args:
        folder: for the layers; empty.

    Attributes:
        patience: seconds that a command may show nothing.
    """

    def __init__(self, folder: Path) -> None:
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "STOMP_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}/usr/sbin{os.pathsep}{kept['PATH']}"
        own = {"PATH": path, "COLUMNS": "100", "HOME": FOLDER, "NODE_OPTIONS": f"--import={HERE / 'websocket.mjs'}"}
        apart = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        self._process = subprocess.Popen(
            [*apart, "sh", "-c", _ENTER, "sh", str(folder), ADDRESS],
            env={**kept, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
        self._serves = False
        self.patience = PATIENCE
        self.run(f"mkdir -p {FOLDER}; cd {FOLDER}; echo '{ADDRESS} broker.example.org' >> /etc/hosts")
        self.run("printf 'silent\\nshow-error\\n' > .curlrc")  # as it is on a terminal
        self.run(f"for name in deploy examples node_modules; do ln -s {ROOT}/$name; done")
        self.run(f"ln -s {HERE / 'systemctl'} {HERE / 'journalctl'} /usr/local/sbin; export PATH=/usr/local/sbin:$PATH")

    def type(self, command: str) -> tuple[int, str]:
        """Run a command; its status, and all that it shows.

        Raises:
            AssertionError: it is silent for too long.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'{{ {command}\n}} < /dev/null\necho "{_DONE} $?"\n'.encode())
        shown = ""
        while _DONE not in shown or not shown.endswith("\n"):
            assert select.select([self._process.stdout], [], [], self.patience)[0], f"$ {command}\n{shown}"
            octets = os.read(self._process.stdout.fileno(), 65_536)
            assert octets, f"the shell has ended at\n$ {command}\n{shown}"
            shown += octets.decode(errors="replace")
        words, _, status = shown.rpartition(_DONE)
        return int(status), words

    def run(self, command: str) -> str:
        """Run a command that must not fail; what it shows."""
        status, shown = self.type(command)
        assert status == 0, f"$ {command}\n{shown}\nstatus {status}"
        return shown

    def write(self, name: str, text: str) -> None:
        self.run(f"cat > {name} << 'end of the file'\n{text}end of the file")

    def serve(self, command: str = "gateway serve") -> None:
        """Start the gateway, or start it again; on return it is ready."""
        self.stop()
        self.run(f"{command} >> gateway.log 2>&1 & gateway=$!")
        status, _ = self.type(f"timeout 30 bash -c '{_READY}' - $gateway")
        assert status == 0, self.type("cat gateway.log")[1]
        self._serves = True

    def stop(self) -> None:
        """End the gateway by SIGTERM, if it runs; it must end well, unless the page has killed it."""
        if self._serves:
            self._serves = False
            status, _ = self.type("kill -TERM $gateway 2> /dev/null; wait $gateway")
            log = self.run("cat gateway.log")
            assert status in (0, 128 + signal.SIGKILL), log
            assert "Traceback" not in log, log

    def reload(self, command: str) -> None:
        """Run what sends SIGHUP to the gateway; on return it has read its files again."""
        self.run("told=$(grep -c reloaded gateway.log || true)")
        self.run(command)
        self.run(f"timeout {PATIENCE} bash -c '{_RELOADED}' - $told")

    def end(self) -> None:
        """All that runs there ends at once."""
        self._process.kill()
        self._process.communicate()
