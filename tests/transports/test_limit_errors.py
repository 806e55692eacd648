"""Every limit, over both transports: a client that goes beyond it reads its value and how the setting is called.

That what comes up to a limit works is for the tests of each.  Limits of the upgrade, which is no STOMP, and of memory
are in `test_connection_limits` and `test_memory_guard`.
"""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from gateway.broker import Quotas
from gateway.broker.errors import SLOW_LIMITS
from gateway.codec import Limits
from gateway.config.settings import Settings
from gateway.transports import TransportOptions
from gateway.transports.flow.connection_limits import LIMITS as OF_ADMISSION
from gateway.transports.flow.rate_limits import LIMITS as OF_RATES

from .harness import MakeHarness
from .peers import CONNECT, frame

NO_BODY = "CONNECT and STOMP need none"
BEFORE = {"connect_limits": Limits(5, 256, 1024, "max_connect_", NO_BODY)}
FRAMES = {"limits": Limits(10, 256, 1000)}
TIMEOUT = {"connect_timeout": 7.0}


def many(command: str, count: int, **headers: str) -> bytes:
    """Frames that differ in the number that stands for `N`."""
    numbered = [{name: value.replace("N", str(number)) for name, value in headers.items()} for number in range(count)]
    return b"".join([frame(command, **each) for each in numbered])


LINES = "".join([f"x{number}:y\n" for number in range(20)]).encode()
DELAYED = many("SEND", 3, destination="/queue/a", **{"x-delay": "60000"})
RETAINED = many("SEND", 3, destination="/topic/N", retain="set")
TEMPORARY = many("SUBSCRIBE", 2, id="N", destination="/temp-queue/N") + frame("SEND", destination="/temp-queue/x")
IN_TRANSACTION = frame("BEGIN", transaction="t") + frame("SEND", b"x" * 3_000, destination="/queue/a", transaction="t")
A = "/queue/a"

# The setting as the ERROR calls it, its value, the ERROR's message, the options (none: it is a quota), and the bytes.
CASES: list[tuple[str, int, str, dict[str, Any], bytes]] = [
    ("max_connect_headers", 5, "too many headers", BEFORE, b"CONNECT\n" + LINES + b"\n\0"),
    ("max_connect_header_line", 256, "header line too long", BEFORE, frame("CONNECT", host="h" * 300)),
    (NO_BODY, 1024, "body too large", BEFORE, frame("CONNECT", content_length=1025)),
    ("connect_timeout", 7, "connect timeout", TIMEOUT, b"CONN"),
    ("max_headers", 10, "too many headers", FRAMES, b"SEND\ndestination:/queue/a\n" + LINES + b"\n\0"),
    ("max_header_line", 256, "header line too long", FRAMES, frame("SEND", destination="/queue/" + "a" * 300)),
    ("four times max_header_line", 1024, "headers too large", FRAMES, b"SEND\n" + b"x" * 2000),
    ("max_body", 1000, "body too large", FRAMES, frame("SEND", destination=A, content_length=1001)),
    ("max_body", 1000, "body too large", FRAMES, frame("SEND", b"x" * 1001, destination=A)),
    ("max_subscriptions", 2, "too many subscriptions", {}, many("SUBSCRIBE", 3, id="N", destination="/topic/N")),
    ("max_subscriptions", 2, "too many temporary destinations", {}, TEMPORARY),
    ("max_transactions", 2, "too many transactions", {}, many("BEGIN", 3, transaction="N")),
    ("max_transaction_bytes", 2048, "transaction too large", {}, IN_TRANSACTION),
    ("max_destinations", 2, "too many destinations", {}, many("SEND", 3, destination="/queue/N")),
    ("max_delayed", 2, "too many delayed messages", {}, DELAYED),
    ("max_retained", 2, "too many retained messages", {}, RETAINED),
    ("memory_limit", 300, "memory limit reached", {}, many("SEND", 3, destination=A, x="y")),
]


@pytest.mark.parametrize(("setting", "value", "message", "options", "data"), CASES)
async def test_the_error_names_the_limit_and_its_value(
    make_harness: MakeHarness,
    kind: str,
    setting: str,
    value: int,
    message: str,
    options: dict[str, Any],
    data: bytes,
    autojump_clock: MockClock,
) -> None:
    quotas: dict[str, Any] = {} if options else {setting: value}
    peer = make_harness(options=TransportOptions(**options), quotas=Quotas(**quotas)).connect(kind)
    if options in (BEFORE, TIMEOUT):
        await peer.send(data)
    else:
        await peer.send(CONNECT + data)
        await peer.frame("CONNECTED")
    received = await peer.receive()
    while received is not None and received.command != "ERROR":
        received = await peer.receive()
    assert received is not None
    await peer.at_end()
    detail = received.body.decode()
    assert (received["message"], setting in detail, str(value) in detail) == (message, True, True)
    if kind == "websocket":
        assert peer.websocket.closed == (1002, message)


def test_what_is_named_is_a_setting() -> None:
    named = {setting.split()[-1] for setting, *_ in CASES} - {"none"}
    named |= {*OF_ADMISSION, *OF_RATES, "max_outbound", "memory_mark"}
    assert named <= set(Settings.model_fields)
    assert SLOW_LIMITS == ("max_outbound", "slow_messages", "browser"), "a setting, a key of a policy, and a browser"
