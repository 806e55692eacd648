"""A loopback TCP relay that can misbehave as networks do: `cut()` resets what is open, `freeze()` swallows what comes.

Connections opened later pass untouched, so a client can come back through the same port, unless they are `held` off.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.gateway_process import HOST

CHUNK = 65536
RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close() sends RST


class _Pair:
    """One client's connection and the one opened for it to the gateway."""

    def __init__(self, client: socket.socket, gateway: socket.socket) -> None:
        self._sockets = (client, gateway)
        self._open = 2  # directions still pumping
        self._lock = threading.Lock()
        self.frozen = False

    def run(self) -> None:
        client, gateway = self._sockets
        for source, target in ((client, gateway), (gateway, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                if not self.frozen:
                    target.sendall(chunk)
        with self._lock:
            self._open -= 1
            last = self._open == 0
        if not self.frozen:
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)
        if last:
            for each in self._sockets:
                each.close()

    def cut(self) -> None:
        """Reset both sides; the pumps wake up and end."""
        for each in self._sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                each.shutdown(socket.SHUT_RDWR)


class Forwarder:
    """Listens on `port` and relays each connection to `target_port`."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._pairs: list[_Pair] = []
        self.held = False  # connections are closed as soon as they come
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # close() ends the loop
            while True:
                client, _ = self._listener.accept()
                if self.held:
                    client.close()
                    continue
                try:
                    gateway = socket.create_connection((HOST, self._target_port), timeout=5)
                except OSError:
                    client.close()
                    continue
                gateway.settimeout(None)
                pair = _Pair(client, gateway)
                self._pairs.append(pair)
                pair.run()

    def cut(self) -> None:
        """Reset every connection that is open now."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.cut()

    def freeze(self) -> None:
        """Let every connection that is open now swallow what comes."""
        for pair in self._pairs:
            pair.frozen = True

    def close(self) -> None:
        """Stop listening and cut what is left."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@contextmanager
def start_forwarder(target_port: int) -> Iterator[Forwarder]:
    forwarder = Forwarder(target_port)
    try:
        yield forwarder
    finally:
        forwarder.close()
