"""A subscription with wildcards is refused, unless its user may have all that it matches; then it gets all of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.rules import Rules
from gateway.broker.model.access import Coverage
from gateway.broker.model.identity import Identity
from gateway.broker.model.patterns import Pattern
from gateway.config.rules import read_tables
from tests.broker.client import Client, Scene

from .test_rules import ADDRESS, TABLE
from .test_rules import PATTERN as RULED

# Queues and topics, as their names are written, and as the broker knows them.
NAMES = {
    "/topic/a": "/topic/a",
    "/topic/a.b": "/topic/a.b",
    "/topic/a/b": "/topic/a/b",
    "/exchange/amq.topic/alice.a": "/topic/alice.a",
    "/topic/alice.b": "/topic/alice.b",
    "/topic/b.alice.a": "/topic/b.alice.a",
    "/topic/c": "/topic/c",
    "/user/alice/queue/a": "/user/alice/queue/a",
    "/user/alice/queue/b": "/user/alice/queue/b",
}
PATTERN = st.one_of(
    st.lists(st.sampled_from(["a", "b", "alice", "*", "#"]), min_size=1, max_size=3)
    .map(lambda words: "/topic/" + ".".join(words))
    .filter(lambda text: text.count("#") < 2 and ("#" in text or "*" in text)),
    st.sampled_from(["/user/queue/*", "/user/queue/#"]),
)
# Mostly rules that concern alice: else little is allowed, or all.
TABLES = st.lists(
    st.one_of(
        TABLE,
        st.tuples(
            st.sampled_from([*NAMES, "/user/queue/a"]).filter(lambda name: "/alice/" not in name) | RULED,
            st.sampled_from(["allow", "allow", "deny"]),
        ).map(lambda pair: {"destination": pair[0], pair[1]: ["subscribe"]}),
    ),
    min_size=1,
    max_size=4,
)
BEFORE: dict[str, dict[str, str]] = {
    "retained": {},
    "replay": {"from-seq": "0"},
    "resume": {"from-seq": "0", "resume": "me", "ack": "client"},
}
LIVE: dict[str, dict[str, str]] = {
    "auto": {},
    "client": {"ack": "client"},
    "no-local": {"no-local": "true"},
    "conflated": {"x-max-length": "100"},
    "durable": {"durable": "true"},
    "named": {"durable-subscription-name": "d"},
    "shared": {"x-queue-name": "shared"},
    "resume": {"resume": "me", "ack": "client"},
}


def client_of(scene: Scene, rules: Rules, address: str) -> Client:
    client = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\nclient-id:me\n\n\0")
    client.session.access = rules.access_of(Identity("alice"), "tcp", address)
    return client


def subscribed(scene: Scene, rules: Rules, address: str, destination: str, **headers: str) -> Client:
    client = client_of(scene, rules, address)
    client.subscribe(destination, **headers)
    return client


def known_as(pattern: str) -> str:
    return pattern.replace("/user/queue/", "/user/alice/queue/")


def one_by_one(scene: Scene, rules: Rules, address: str, pattern: str) -> set[str]:
    """The names that a pattern matches, and that alice may subscribe to."""
    found = set()
    known = Pattern(known_as(pattern))
    for name in NAMES.values():
        client = subscribed(scene, rules, address, name.replace("/user/alice/", "/user/"))
        if not client.closed and known.matches(name):
            found.add(name)
        client.drop()
    return found


def matching(pattern: str) -> set[str]:
    """The names that a pattern matches."""
    known = Pattern(known_as(pattern))
    return {name for name in NAMES.values() if known.matches(name)}


def publish(scene: Scene, **headers: str) -> None:
    sender = scene.connect()
    for written, name in NAMES.items():
        may_retain = not written.startswith("/user/")
        sender.publish(written, name.encode(), **(headers if may_retain else {}))
    sender.publish("c", b"/topic/c", **{"destination-type": "MULTICAST"}, **headers)


def names_of(client: Client) -> set[str]:
    """The destinations of the messages that came."""
    return {body.decode() for body in client.bodies()}


@pytest.mark.parametrize("way", LIVE)
@settings(max_examples=60, deadline=None)
@given(tables=TABLES, address=ADDRESS, pattern=PATTERN)
def test_live(way: str, tables: list[Any], address: str, pattern: str) -> None:
    # Sharing needs no part of the pattern.
    shared = {"destination": "/queue/shared", "allow": ["subscribe"]}
    rules = Rules(read_tables([shared, *tables]))
    scene = Scene({"/topic/#": {"log_messages": 50}, "/user/#": {"log_messages": 50}} if way == "resume" else None)
    allowed = one_by_one(scene, rules, address, pattern)
    client = subscribed(scene, rules, address, pattern, **LIVE[way])
    publish(scene)
    if client.closed:
        assert client.error().headers["message"] == "access refused"
        access = client.session.access
        assert access is not None
        assert access.reach(known_as(pattern)) is not Coverage.ALL
    else:
        assert names_of(client) == allowed == matching(pattern)
    scene.audit()


@pytest.mark.parametrize("way", BEFORE)
@settings(max_examples=60, deadline=None)
@given(tables=TABLES, address=ADDRESS, pattern=PATTERN)
def test_what_was_there_before(way: str, tables: list[Any], address: str, pattern: str) -> None:
    rules = Rules(read_tables(tables))
    logs: dict[str, dict[str, Any]] = {"/topic/#": {"log_messages": 50}, "/user/#": {"log_messages": 50}}
    scene = Scene(None if way == "retained" else logs)
    publish(scene, **({"retain": "set"} if way == "retained" else {}))
    allowed = one_by_one(scene, rules, address, pattern)
    client = subscribed(scene, rules, address, pattern, **BEFORE[way])
    if client.closed:
        assert client.error().headers["message"] == "access refused"
        access = client.session.access
        assert access is not None
        assert access.reach(known_as(pattern)) is not Coverage.ALL
    elif way == "retained":
        assert names_of(client) == {name for name in allowed if name.startswith("/topic/")}
    else:
        assert names_of(client) == allowed
    scene.audit()
