"""The counters: all of them explained, all zero at the start; what each counts of the broker's doings."""

from __future__ import annotations

import pytest

from gateway.auth.failed_logins import TooManyFailedLogins
from gateway.broker import errors
from gateway.broker.core.counters import ERRORS, Counters
from gateway.broker.errors import AccessRefused, HeaderMissing, LoginRefused, TooMany
from gateway.broker.model.policy import OnNack, WhenFull
from gateway.codec import LimitExceeded, MalformedFrame, ProtocolError, Version
from gateway.transports.connection.heartbeats import HeartbeatMissing

from ..client import WITH_NACK, Scene
from ..conftest import Stage


def test_all_are_explained_and_start_at_zero() -> None:
    counters = Counters()
    assert set(counters.totals().values()) == {0}
    assert {"dropped", "errors", "logins_failed", "refused", "forbidden", "published"} < set(counters.totals())


def test_a_broker_counts(scene: Scene, version: Version) -> None:
    counters = scene.broker.counters
    client, consumer, reader = (scene.connect(version) for _ in range(3))
    assert counters.sessions == 3
    client.publish("/topic/a")
    assert (counters.published, counters.unroutable, counters.delivered) == (1, 1, 0)
    consumer.subscribe("/topic/a", "0")
    reader.subscribe("/topic/a", "0")
    consumer.subscribe("/topic/a", "1", ack="client")
    client.publish("/topic/a")
    assert (counters.published, counters.unroutable, counters.delivered) == (2, 1, 3)
    client.publish("/queue/a")
    assert (counters.published, counters.delivered) == (3, 3)
    consumer.subscribe("/queue/a", "2", ack="client")
    reader.subscribe("/queue/a", "2")
    client.publish("/queue/a")
    assert (counters.delivered, counters.redelivered) == (5, 0)
    consumer.drop()
    assert (counters.delivered, counters.redelivered) == (7, 2)
    assert (counters.acknowledged, counters.rejected, counters.errors) == (0, 0, 0)


def test_what_a_transaction_sends_is_published_at_commit(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.begin()
    for _ in range(3):
        client.publish("/queue/a", transaction="t")
    assert scene.broker.counters.published == 0
    client.commit()
    assert scene.broker.counters.published == 3


def test_frames_are_counted_with_those_that_fail(scene: Scene, version: Version) -> None:
    client, other = scene.connect(version), scene.connect(version)
    client.begin()
    client.publish("/queue/a", transaction="t")
    other.publish("/queue/a")
    client.send("BOGUS")
    assert (client.session.frames_in, other.session.frames_in) == (3, 1)
    assert scene.broker.counters.frames_in == 4
    assert scene.broker.counters.errors == 1


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
def test_by_cause(error: ProtocolError, cause: str) -> None:
    counters = Counters()
    counters.fail(error)
    counters.refuse(error)
    assert (counters.failures[cause], counters.errors) == (2, 2)
    assert (counters.refusals[cause], counters.refused) == (1, 1)
    assert counters.totals() == Counters().totals() | {"errors": 2, "refused": 1}


def test_logins_by_what_was_shown() -> None:
    counters = Counters()
    for method in ("token", "token", "passcode", "", "made up"):
        counters.fail_login(method)
    shown = {method: count for method, count in counters.failed_logins.items() if count}
    assert shown == {"token": 2, "passcode": 1, "other": 2}
    assert counters.logins_failed == 5


@pytest.mark.parametrize("version", WITH_NACK)
def test_messages_thrown_away_by_reason(stage: Stage, version: Version) -> None:
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
    client = scene.connect(version)
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
    operator = scene.message_admin
    (found,) = (target for target in scene.broker.destinations.values() if target.name == "/queue/deleted")
    operator.delete("/queue/deleted", [message.id.decode() for message in found.waiting_messages()], lambda _: None)  # type: ignore[union-attr]
    operator.purge("/queue/purged", "", lambda _: None)
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
    assert scene.broker.counters.dropped == 15
