"""Files of an earlier release: its gateway runs, clients use it, and what it leaves goes into an archive.

    PYTHONPATH=CHECKOUT python tests/earlier/make.py CHECKOUT/tests/earlier/files.tar.gz

The module uses `gateway serve` and STOMP over TCP alone, so it runs with the code of any release.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

PORT, HTTP = 39_613, 39_614
SETTINGS = f"""\
tcp = "127.0.0.1:{PORT}"
websocket = ""
http = "127.0.0.1:{HTTP}"
store = "sqlite:store.db"
journal = "journal"

[[policy]]
match = "/topic/log"
log_messages = 10
idle_timeout = 315360000

[[policy]]
match = "/topic/news"
idle_timeout = 315360000
"""
FAR = 253_402_300_799_999  # the year 9999, in milliseconds since 1970
CURSORS = 6.0  # seconds within which a gateway writes the positions of its readers


class Client:
    """A connection that speaks STOMP 1.2."""

    def __init__(self, name: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", PORT), timeout=10)
        self._buffer = b""
        self._receipts = 0
        self.send("CONNECT", **{"accept-version": "1.2", "host": "h", "client-id": name})
        assert self.read()[0] == "CONNECTED"

    def send(self, command: str, body: bytes = b"", **headers: object) -> None:
        """A frame; `_` in a name of small letters stands for a hyphen."""
        names = {name: name.replace("_", "-") if name.islower() else name for name in headers}
        lines = "".join([f"{names[name]}:{value}\n" for name, value in headers.items()])
        lines += f"content-length:{len(body)}\n" if command == "SEND" else ""
        self._socket.sendall(f"{command}\n{lines}\n".encode() + body + b"\0")

    def done(self, command: str, body: bytes = b"", **headers: object) -> None:
        """A frame whose RECEIPT is waited for."""
        self._receipts += 1
        self.send(command, body, receipt=self._receipts, **headers)
        assert self.read() == ("RECEIPT", str(self._receipts))

    def read(self) -> tuple[str, str]:
        """The command of the next frame, and what an answer to it names; bodies have no NUL here."""
        while b"\0" not in self._buffer:
            self._buffer += self._socket.recv(65_536)
        frame, _, rest = self._buffer.partition(b"\0")
        self._buffer = rest
        command, *lines = frame.lstrip(b"\n").partition(b"\n\n")[0].decode().split("\n")
        headers = dict(line.split(":", 1) for line in reversed(lines))
        return command, headers.get("ack") or headers.get("receipt-id", "")


def use() -> None:
    """Something of everything that a store keeps."""
    client, other = Client("one"), Client("two")
    durable = {"persistent": "true"}
    client.done("SEND", b"first", destination="/queue/orders", priority=7, kind="ü", **durable)
    client.done("SEND", b"\0\xff", destination="/queue/orders", **durable)
    client.done("SEND", b"third", destination="/queue/orders", JMSXGroupID="g", expires=FAR, **durable)
    client.done("SEND", b"later", destination="/queue/later", AMQ_SCHEDULED_TIME=FAR, **durable)
    client.done("SEND", b"once", destination="/queue/once", dedup_id="a", **durable)
    client.done("SEND", b"sun", destination="/topic/weather", retain="set", **durable)
    for name, requeue in (("tried", "true"), ("bad", "false")):
        client.done("SEND", name.encode(), destination=f"/queue/{name}", **durable)
        client.send("SUBSCRIBE", destination=f"/queue/{name}", id=name, ack="client-individual")
        handle = client.read()[1]
        client.send("NACK", id=handle, requeue=requeue)
        client.done("UNSUBSCRIBE", id=name)
    other.done("SUBSCRIBE", destination="/topic/news", id="news", durable="true", ack="client", selector="kind = 'x'")
    other.send("DISCONNECT")
    for number in range(4):
        client.done("SEND", b"%d" % number, destination="/topic/log", **durable)
        client.done("SEND", b"%d" % number, destination="/topic/news", kind="xy"[number % 2], **durable)
    client.send("SUBSCRIBE", destination="/topic/log", id="log", ack="client", resume="reader", from_seq=0)
    handles = [client.read()[1] for _ in range(4)]
    client.done("ACK", id=handles[1])


def main(archive: Path) -> None:
    """Run the gateway, use it, keep its files as a kill would leave them, and stop it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed, stopped = folder / "killed", folder / "stopped"
        killed.mkdir()
        stopped.mkdir()
        (folder / "gateway.toml").write_text(SETTINGS)
        with subprocess.Popen([sys.executable, "-m", "gateway", "serve"], cwd=folder) as process:
            while True:
                try:
                    Client("probe").send("DISCONNECT")
                    break
                except OSError:
                    time.sleep(0.1)
            use()
            time.sleep(CURSORS)
            for each in ("store.db", "store.db-wal"):
                shutil.copy(folder / each, killed)
            shutil.copytree(folder / "journal", killed / "journal")
            process.send_signal(signal.SIGTERM)
        shutil.copy(folder / "store.db", stopped)
        shutil.copytree(folder / "journal", stopped / "journal")
        with tarfile.open(archive, "w:gz") as packed:
            for each in (killed, stopped):
                packed.add(each, each.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
