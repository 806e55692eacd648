"""A program with stomp.py that sends durable messages as long as its input is open, and comes back when it is cut off.

    python -m tests.deploy.stomp_program PORT AUTHORITY

It says a line for each thing that happens: `login N`, `promised BODY`, `hint MILLISECONDS`.  A process of its own, as
users have it, and so that what stomp.py leaves open is no matter of the tests.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

import stomp
from stomp.exception import ConnectFailedException, NotConnectedException
from stomp.utils import Frame

HOST = "127.0.0.1"
QUEUE = "/queue/orders"
PAUSE = 0.05
PATIENCE = 20.0


class Sender(stomp.ConnectionListener):
    def __init__(self, port: int, authority: str) -> None:
        self._place = (HOST, port)
        self._authority = authority
        self._changed = threading.Event()
        self._receipt = ""
        self._is_open = False
        self._count = 0
        self.over = threading.Event()

    def on_receipt(self, frame: Frame) -> None:
        self._receipt = frame.headers["receipt-id"]
        self._changed.set()

    def on_error(self, frame: Frame) -> None:
        print("hint", frame.headers["retry-after"], flush=True)

    def on_disconnected(self) -> None:
        self._is_open = False
        self._changed.set()

    def run(self) -> None:
        while not self.over.is_set():
            connection = stomp.Connection12([self._place], reconnect_attempts_max=1, heartbeats=(10_000, 10_000))
            connection.set_ssl([self._place], ca_certs=self._authority)
            connection.set_listener("sender", self)
            with suppress(ConnectFailedException, NotConnectedException, OSError):
                self._is_open = True
                connection.connect("ada", "engine", wait=True)
                print("login", self._count, flush=True)
                self._send(connection)
            with suppress(NotConnectedException, OSError):
                connection.disconnect()
            self.over.wait(PAUSE)

    def _send(self, connection: stomp.Connection12) -> None:
        while not self.over.is_set():
            self._changed.clear()
            if not self._is_open:
                break
            body = f"python-{self._count}"
            connection.send(QUEUE, body, receipt=body, headers={"persistent": "true", "dedup-id": body})
            self._changed.wait(PATIENCE)
            if self._receipt == body:
                self._count += 1
                print("promised", body, flush=True)


def main() -> None:
    sender = Sender(int(sys.argv[1]), sys.argv[2])
    thread = threading.Thread(target=sender.run)
    thread.start()
    sys.stdin.read()
    sender.over.set()
    thread.join()


if __name__ == "__main__":
    main()
