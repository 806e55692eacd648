"""What scenarios set up and clear away: connections, names, messages that wait.

All of it is outside the measured part, and all of it is checked: what was sent to wait is received again in the end.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.link import PATIENCE, Check, Link, Receiver
from benchmarks.loop import POLL
from benchmarks.wire import DeliveryError, Transport, frame

# Seconds after which memory is read: closed connections are gone, buffers that served the set-up are freed.
SETTLE = 0.5
_numbers = itertools.count()


@contextmanager
def links_of(transport: Transport, count: int) -> Iterator[list[Link]]:
    """So many connections; they are closed in the end, however it comes."""
    with ExitStack() as stack:
        links = []
        for _ in range(count):
            links.append(Link(transport))
            stack.callback(links[-1].socket.close)
        yield links


def destination_of(kind: str) -> str:
    """A name that no other round uses, whatever broker it is."""
    return f"/{kind}/bench-{os.getpid()}-{next(_numbers)}"


def batches_of(transport: Transport, frames: Sequence[bytes], size: int) -> list[bytes]:
    """These frames as bytes, `size` frames in each."""
    return [transport.encode(list(frames[at : at + size])) for at in range(0, len(frames), size)]


def fill(link: Link, batches: Sequence[bytes], count: int) -> None:
    """Send this many of the batches, over and over; when it returns the server has handled them all."""
    link.socket.settimeout(PATIENCE)
    for batch in itertools.islice(itertools.cycle(batches), count):
        link.socket.sendall(batch)
    synchronize(link)


def synchronize(link: Link) -> None:
    """Wait until the server has carried out all that was sent by this link.

    Raises:
        DeliveryError: something else than the RECEIPT came.
    """
    surplus = link.request("SEND", destination="/topic/nobody", content_length=0)
    if surplus:
        raise DeliveryError(f"{len(surplus)} frames that nobody asked for")


def subscribe(link: Link, destination: str, **headers: object) -> None:
    """Subscribe without a receipt: what waits there may come before it."""
    link.send(link.transport.encode([frame("SUBSCRIBE", destination=destination, id=0, **headers)]))


def subscribe_each(link: Link, destinations: Mapping[int, str]) -> None:
    """Subscribe to each of these, by id, in mode auto."""
    frames = [frame("SUBSCRIBE", destination=name, id=number) for number, name in destinations.items()]
    link.socket.settimeout(PATIENCE)
    link.socket.sendall(link.transport.encode(frames))
    synchronize(link)


def leave_all(*links: Link) -> None:
    """DISCONNECT each, and nothing more may come."""
    for link in links:
        link.leave()


def drain(link: Link, destination: str, texts: Sequence[bytes], count: int) -> None:
    """Consume and check exactly `count` waiting messages, and leave."""
    subscribe(link, destination)
    consume(Receiver(link, Check(texts)), count)
    link.leave()


def consume(receiver: Receiver, count: int) -> None:
    """Receive until this many have been checked.

    Raises:
        DeliveryError: they do not come.
    """
    receiver.link.socket.setblocking(False)
    heard = time.monotonic()
    while (before := receiver.check.count) < count:
        receiver.receive()
        if receiver.check.count > before:
            heard = time.monotonic()
        elif time.monotonic() > heard + PATIENCE:
            raise DeliveryError(f"{count - before} of {count} waiting messages did not come")
        else:
            time.sleep(POLL)


def require_empty(transport: Transport, destination: str) -> None:
    """A queue whose messages were all consumed or acknowledged has nothing for a new subscriber."""
    with links_of(transport, 1) as (link,):
        drain(link, destination, [b""], 0)
