"""Counters: frames, errors by cause, failed logins, and messages thrown away by reason."""

from __future__ import annotations

import pytest

from gateway.auth.failed_logins import TooManyFailedLogins
from gateway.broker import errors
from gateway.broker.core.counters import ERRORS, Counters
from gateway.broker.errors import AccessRefused, HeaderMissing, LoginRefused, TooMany
from gateway.broker.model.policy import OnNack, WhenFull
from gateway.broker.queue.queue import Queue
from gateway.codec import LimitExceeded, MalformedFrame, ProtocolError
from gateway.transports.connection.heartbeats import HeartbeatMissing

from ..client import Scene
from ..conftest import Stage


def test_frames_count_also_if_they_fail_and_messages_of_a_transaction_at_commit(scene: Scene) -> None:
    client, other = scene.connect(), scene.connect()
    client.begin()
    for _ in range(3):
        client.publish("/queue/a", transaction="t")
    assert scene.broker.counters.published == 0
    client.commit()
    assert scene.broker.counters.published == 3
    client.begin()
    client.publish("/queue/a", transaction="t")
    other.publish("/queue/a")
    client.send("BOGUS")
    counters = scene.broker.counters
    assert (client.session.frames_in, other.session.frames_in, counters.frames_in, counters.totals()["errors"]) == (
        8,
        1,
        9,
        1,
    )


def _every(kind: type[ProtocolError]) -> set[type[ProtocolError]]:
    found = {kind}
    for each in kind.__subclasses__():
        found |= _every(each)
    return {each for each in found if each.__module__.startswith("gateway.")}


def test_every_error_has_a_cause_that_is_known() -> None:
    assert {HeartbeatMissing, TooManyFailedLogins, MalformedFrame, errors.RenewalRefused} < _every(ProtocolError)
    assert {each.cause for each in _every(ProtocolError)} == set(ERRORS)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ProtocolError("internal error"), "internal"),
        (MalformedFrame("x"), "malformed"),
        (HeaderMissing("SEND", "destination"), "malformed"),
        (LimitExceeded("x"), "too-large"),
        (AccessRefused("x", "y"), "access-refused"),
        (LoginRefused(), "login-refused"),
        (TooManyFailedLogins(3, 1.0), "login-refused"),
        (TooMany("x"), "too-many"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_errors_count_by_cause(error: ProtocolError, cause: str) -> None:
    counters = Counters()
    counters.fail(error)
    counters.refuse(error)
    assert (counters.failures[cause], counters.totals()["errors"]) == (2, 2)
    assert (counters.refusals[cause], counters.totals()["refused"]) == (1, 1)
    assert counters.totals() == Counters().totals() | {"errors": 2, "refused": 1}


def test_logins_count_by_the_kind_of_credentials() -> None:
    counters = Counters()
    for method in ("token", "token", "passcode", "", "made up"):
        counters.fail_login(method)
    shown = {method: count for method, count in counters.failed_logins.items() if count}
    assert shown == {"token": 2, "passcode": 1, "other": 2}


def test_messages_thrown_away_count_by_reason(stage: Stage) -> None:
    none = {"dead_letter": ""}
    scene = stage(
        {
            "/queue/full": {"max_messages": 1, "when_full": WhenFull.DROP_NEWEST},
            "/queue/nack": {"on_nack": OnNack.DROP},
            "/queue/last": {"max_attempts": 1} | none,
            "/queue/late": {"time_to_live": 1.0, "dead_letter_expired": True} | none,
            "/queue/gone": {"idle_timeout": 1.0},
            "/topic/kept": {},
        },
        max_retained=1,
    )
    client = scene.connect()
    for name, count in (("full", 3), ("nack", 1), ("last", 1), ("late", 2), ("gone", 3), ("purged", 4), ("deleted", 1)):
        for _ in range(count):
            client.publish(f"/queue/{name}")
    for id, name in enumerate(("nack", "last")):
        client.subscribe(f"/queue/{name}", str(id), ack="client-individual")
    for message in client.messages():
        client.nack(message)
    client.publish("/topic/late", b"", retain="set", **{"x-delay": "100"})
    client.publish("/topic/kept", retain="set")
    scene.wait(2.0)
    queue = scene.broker.destinations["/queue/deleted"]
    assert isinstance(queue, Queue)
    scene.message_admin.delete(queue.name, [message.id.decode() for message in queue.waiting_messages()], lambda _: ...)
    scene.message_admin.purge("/queue/purged", "", lambda _: None)
    scene.settle()
    assert scene.broker.counters.drops == {
        "queue-full": 2,
        "rejected": 1,
        "max-attempts": 1,
        "expired": 2,
        "max-retained": 1,
        "queue-gone": 3,
        "purged": 4,
        "deleted": 1,
    }
    assert scene.broker.counters.totals()["dropped"] == 15
