"""Every limit, over both transports: who goes beyond it reads its value and how the setting is called.

What comes up to a limit works; that is for the tests of each.  Those of the upgrade, which is no STOMP, and of memory
are in `test_connection_limits` and `test_memory_guard`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from trio.testing import MockClock

from gateway.broker import Quotas
from gateway.broker.errors import SLOW_LIMITS
from gateway.codec import Limits
from gateway.config.settings import Settings
from gateway.transports import TransportOptions
from gateway.transports.flow.connection_limits import LIMITS as OF_ADMISSION
from gateway.transports.flow.rate_limits import LIMITS as OF_RATES

from .harness import Harness
from .peers import CONNECT, frame

MakeHarness = Callable[..., Harness]

BEFORE = Limits(5, 256, 1024, "max_connect_", "CONNECT and STOMP need none")


def many(command: str, count: int, **headers: str) -> bytes:
    """Frames that differ in the number that stands for `N`."""
    numbered = [{name: value.replace("N", str(number)) for name, value in headers.items()} for number in range(count)]
    return b"".join([frame(command, **each) for each in numbered])


@dataclass(frozen=True)
class Case:
    """A limit.

    Attributes:
        setting: as the ERROR calls it.
        value: as the ERROR has it.
        message: of the ERROR.
        nbytes: what the client sends.
        is_opening: instead of a CONNECT; else behind one.
    """

    setting: str
    value: int
    message: str
    nbytes: bytes
    options: TransportOptions = field(default_factory=TransportOptions)
    quotas: Quotas = field(default_factory=Quotas)
    is_opening: bool = False


def before(setting: str, value: int, message: str, data: bytes) -> Case:
    return Case(setting, value, message, data, TransportOptions(connect_limits=BEFORE), is_opening=True)


def of_frames(setting: str, value: int, message: str, data: bytes) -> Case:
    return Case(setting, value, message, data, TransportOptions(limits=Limits(10, 256, 1000)))


def of_sessions(setting: str, message: str, data: bytes, value: int = 2) -> Case:
    return Case(setting, value, message, data, quotas=Quotas(**{setting: value}))  # type: ignore[arg-type]


LINES = "".join([f"x{number}:y\n" for number in range(20)]).encode()
DELAYED = many("SEND", 3, destination="/queue/a", **{"x-delay": "60000"})
IN_TRANSACTION = frame("BEGIN", transaction="t") + frame("SEND", b"x" * 3_000, destination="/queue/a", transaction="t")

CASES = [
    before("max_connect_headers", 5, "too many headers", b"CONNECT\n" + LINES + b"\n\0"),
    before("max_connect_header_line", 256, "header line too long", frame("CONNECT", host="h" * 300)),
    before("CONNECT and STOMP need none", 1024, "body too large", frame("CONNECT", content_length=1025)),
    Case("connect_timeout", 7, "connect timeout", b"CONN", TransportOptions(connect_timeout=7.0), is_opening=True),
    of_frames("max_headers", 10, "too many headers", b"SEND\ndestination:/queue/a\n" + LINES + b"\n\0"),
    of_frames("max_header_line", 256, "header line too long", frame("SEND", destination="/queue/" + "a" * 300)),
    of_frames("four times max_header_line", 1024, "headers too large", b"SEND\n" + b"x" * 2000),
    of_frames("max_body", 1000, "body too large", frame("SEND", destination="/queue/a", content_length=1001)),
    of_frames("max_body", 1000, "body too large", frame("SEND", b"x" * 1001, destination="/queue/a")),
    of_sessions("max_subscriptions", "too many subscriptions", many("SUBSCRIBE", 3, id="N", destination="/topic/N")),
    of_sessions(
        "max_subscriptions",
        "too many temporary destinations",
        many("SUBSCRIBE", 2, id="N", destination="/temp-queue/N") + frame("SEND", destination="/temp-queue/x"),
    ),
    of_sessions("max_transactions", "too many transactions", many("BEGIN", 3, transaction="N")),
    of_sessions("max_transaction_octets", "transaction too large", IN_TRANSACTION, 2048),
    of_sessions("max_destinations", "too many destinations", many("SEND", 3, destination="/queue/N")),
    of_sessions("max_delayed", "too many delayed messages", DELAYED),
    of_sessions("max_retained", "too many retained messages", many("SEND", 3, destination="/topic/N", retain="set")),
    of_sessions("memory_limit", "memory limit reached", many("SEND", 3, destination="/queue/a", x="y"), 300),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.setting}-{case.message}".replace(" ", "_"))
async def test_the_error_names_the_limit_and_its_value(
    make_harness: MakeHarness, kind: str, case: Case, autojump_clock: MockClock
) -> None:
    harness = make_harness(options=case.options, quotas=case.quotas)
    peer = harness.connect(kind)
    if case.is_opening:
        await peer.send(case.nbytes)
    else:
        await peer.send(CONNECT + case.nbytes)
        await peer.frame("CONNECTED")
    received = await peer.receive()
    while received is not None and received.command != "ERROR":
        received = await peer.receive()
    assert received is not None
    await peer.at_end()
    assert received["message"] == case.message
    detail = received.body.decode()
    assert case.setting in detail
    assert str(case.value) in detail
    if kind == "websocket":
        assert peer.websocket.closed == (1002, case.message)


def test_what_is_named_is_a_setting() -> None:
    named = {case.setting.split()[-1] for case in CASES} - {"none"}
    named |= {*OF_ADMISSION, *OF_RATES, "max_outbound", "memory_mark"}
    assert named <= set(Settings.model_fields)
    assert SLOW_LIMITS == ("max_outbound", "slow_messages", "browser"), "a setting, a key of a policy, and a browser"
