"""One stomp.py connection for a test, over TCP; what comes to it goes into queues, on which tests wait with a bound."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stomp
from stomp.utils import Frame

from tests.gateway_process import HOST

PATIENCE = 8.0
CONNECTIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}

_receipts = itertools.count(1)


class Worker(stomp.ConnectionListener):
    def __init__(self, version: str, port: int, **options: Any) -> None:
        self.version = version
        self.messages: queue.Queue[Frame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[Frame] = queue.Queue()
        self.losses: queue.Queue[None] = queue.Queue()
        self.connection = CONNECTIONS[version]([(HOST, port)], auto_decode=False, **options)
        self.connection.set_listener("worker", self)

    def on_message(self, frame: Frame) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Frame) -> None:
        self.errors.put(frame)

    def on_disconnected(self) -> None:
        self.losses.put(None)

    def message(self) -> Frame:
        return self.messages.get(timeout=PATIENCE)

    def body(self) -> str:
        return bytes(self.message().body).decode()

    def confirmed(self, act: Any, *arguments: Any, **headers: Any) -> None:
        """Do something with a receipt, and wait for it."""
        receipt = f"receipt-{next(_receipts)}"
        act(*arguments, receipt=receipt, **headers)
        assert self.receipts.get(timeout=PATIENCE) == receipt

    def bodies(self, count: int) -> list[str]:
        return [self.body() for _ in range(count)]

    def subscribe(
        self, destination: str, id: str = "1", ack: str = "auto", headers: dict[str, str] | None = None
    ) -> None:
        self.confirmed(self.connection.subscribe, destination, id=id, ack=ack, headers=headers)

    def send(self, destination: str, body: str | bytes, **headers: Any) -> None:
        self.confirmed(self.connection.send, destination, body, **headers)

    def ack(self, frame: Frame, **more: Any) -> None:
        self.connection.ack(*self._handle(frame), **more)

    def nack(self, frame: Frame, **more: Any) -> None:
        self.connection.nack(*self._handle(frame), **more)

    def _handle(self, frame: Frame) -> list[str]:
        """What ACK names: each version has its own way."""
        headers = frame.headers
        if self.version == "1.2":
            return [headers["ack"]]
        return [headers["message-id"], *([headers["subscription"]] if self.version == "1.1" else [])]


@contextmanager
def work(version: str, port: int, login: tuple[str, str] | None = None, **options: Any) -> Iterator[Worker]:
    """A connected worker, which leaves with DISCONNECT; an ERROR in between fails the test."""
    worker = Worker(version, port, **options)
    worker.connection.connect(*(login or ()), wait=True)
    yield worker
    if worker.connection.is_connected():
        worker.connection.disconnect(receipt="farewell")
        worker.losses.get(timeout=PATIENCE)
    assert worker.errors.empty(), worker.errors.get().headers
