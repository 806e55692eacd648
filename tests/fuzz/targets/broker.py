"""Two clients of one broker that say anything at all: its books are right after every step (`tests.broker.client`)."""

from __future__ import annotations

from gateway.codec import V11, V12
from tests.broker.client import Scene

# Each step begins with one of these; what stands behind it, to the next one, is what that client sends.
FIRST, SECOND, TIME = b"\x01", b"\x02", b"\x03"


def run(octets: bytes) -> None:
    scene = Scene(max_subscriptions=8, max_transactions=3, memory_limit=64 * 1024, max_destinations=20)
    clients = {FIRST: scene.connect(V12), SECOND: scene.connect(V11)}
    who, start = FIRST, 0
    for place in range(len(octets) + 1):
        at = octets[place : place + 1]
        if at and at not in (FIRST, SECOND, TIME):
            continue
        said = octets[start:place]
        if who == TIME:
            scene.wait(0.05)
        elif said and not clients[who].closed:
            clients[who].receive(said)
        who, start = at, place + 1
    scene.finish()
