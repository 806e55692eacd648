"""A STOMP 1.2 server that does one thing: it floods its subscriber with messages, as fast as that one takes them.

It is a process of its own, so that what it costs is not counted as the client's.  Messages have ten headers and a body
of 100 bytes; `message-id` and `ack` grow.  It answers receipts, and sends no more than `count` messages.

    python -m benchmarks.pipeline.flood COUNT      prints its port
"""

from __future__ import annotations

import re
import select
import socket
import sys

_RECEIPT = re.compile(rb"\nreceipt:([^\n]+)\n")
_MESSAGE = (
    b"MESSAGE\nsubscription:%s\nack:%d\ndestination:/queue/flood\ncontent-type:text/plain\nkind:order\n"
    b"region:europe\npriority:4\ntimestamp:1795262400000\nmessage-id:m-%d\ncontent-length:100\n\n" + b"x" * 100 + b"\0"
)
_TOGETHER = 500


def serve(count: int) -> None:
    """Serve one client, until it goes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
        with connection:
            _flood(connection, count)


def _flood(connection: socket.socket, count: int) -> None:
    connection.setblocking(False)
    subscription, sent, received, out = b"", 0, b"", bytearray()
    waiting = select.poll()
    while True:
        waiting.register(connection, select.POLLIN | (select.POLLOUT if out or (subscription and sent < count) else 0))
        waiting.poll()
        try:
            chunk = connection.recv(1_000_000)
            if not chunk:
                return
            *frames, received = (received + chunk).split(b"\0")
            for frame in frames:
                if b"CONNECT\n" in frame[:9]:
                    out += b"CONNECTED\nversion:1.2\nserver:flood\n\n\0"
                elif found := _RECEIPT.search(frame):
                    out += b"RECEIPT\nreceipt-id:%s\n\n\0" % found[1]
                if b"SUBSCRIBE\nid:" in frame[:15]:
                    subscription = frame.split(b"\nid:", 1)[1].split(b"\n", 1)[0]
        except BlockingIOError:
            pass
        except ConnectionError:
            return
        if not out and subscription and sent < count:
            end = min(count, sent + _TOGETHER)
            out += b"".join([_MESSAGE % (subscription, number, number) for number in range(sent, end)])
            sent = end
        try:
            del out[: connection.send(out)]
        except BlockingIOError:
            pass
        except ConnectionError:
            return


if __name__ == "__main__":
    serve(int(sys.argv[1]))
