"""A client that behaves well: it sends itself a message, waits for it, and notes how long that took.

    python -m tests.attacks.neighbour PORT LOGIN PASSCODE

Each line on standard input is answered by a line of JSON about the time since the last one: `count`, and `p50` and
`p99` in milliseconds, with what the gateway says of its own turns (`probe`).  It ends with its input, status 0; or with
1 when a message did not come, or another came.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

PAUSE = 0.002
PATIENCE = 20.0


class Neighbour:
    def __init__(self, port: int, login: str, passcode: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""
        self._count = 0
        self._socket.sendall(f"CONNECT\naccept-version:1.2\nhost:h\nlogin:{login}\npasscode:{passcode}\n\n\0".encode())
        self._expect(b"CONNECTED")
        self._destination = f"/topic/neighbour.{os.getpid()}".encode()
        self._socket.sendall(b"SUBSCRIBE\nid:0\ndestination:%b\nreceipt:r\n\n\0" % self._destination)
        self._expect(b"RECEIPT")

    def once(self) -> float:
        """Milliseconds that a message took."""
        self._count += 1
        began = time.perf_counter()
        self._socket.sendall(b"SEND\ndestination:%b\n\n%d\0" % (self._destination, self._count))
        body = self._expect(b"MESSAGE")
        took = time.perf_counter() - began
        if body != b"%d" % self._count:
            sys.exit(f"{body!r} came instead of {self._count}")
        return took * 1000

    def turns(self) -> bytes:
        """What the gateway says of its own turns (`probe`), as JSON."""
        self._socket.sendall(b"SUBSCRIBE\nid:turns\ndestination:/app/turns\n\n\0")
        said = self._expect(b"MESSAGE")
        self._socket.sendall(b"UNSUBSCRIBE\nid:turns\n\n\0")
        return said

    def _expect(self, command: bytes) -> bytes:
        """The next frame, which must be of that command; its body."""
        while b"\0" not in self._left.lstrip(b"\n"):
            nbytes = self._socket.recv(65536)
            if not nbytes:
                sys.exit(f"the connection ended instead of {command.decode()}")
            self._left += nbytes
        frame, _, self._left = self._left.lstrip(b"\n").partition(b"\0")
        if not frame.startswith(command + b"\n"):
            sys.exit(f"{frame[:200]!r} came instead of {command.decode()}")
        return frame.partition(b"\n\n")[2]


def main() -> None:
    port, login, passcode = sys.argv[1:]
    neighbour = Neighbour(int(port), login, passcode)
    taken: list[float] = []
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], PAUSE)
        if readable:
            if not sys.stdin.readline():
                return
            taken.sort()
            at = {"p50": taken[len(taken) // 2], "p99": taken[len(taken) * 99 // 100]} if taken else {}
            print(json.dumps({"count": len(taken), **at, **json.loads(neighbour.turns())}), flush=True)
            taken = []
        taken.append(neighbour.once())


if __name__ == "__main__":
    main()
