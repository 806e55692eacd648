"""The gateway as a test sees it: addresses, messages, and the clock; in a Trio loop and in a thread."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import trio

import gateway.testing
from gateway.client import Client, StompServer, connect
from gateway.testing import LocalGateway, open_gateway, start_gateway

BACK_OFF = [{"match": "/queue/#", "backoff": 60, "max_attempts": 3}]


@pytest.fixture
def started() -> Iterator[LocalGateway]:
    with start_gateway(policy=BACK_OFF) as found:
        yield found


@contextmanager
def client_of(found: LocalGateway) -> Iterator[Client]:
    with closing(Client(StompServer(found.host, found.port))) as client:
        yield client


def send(client: Client, destination: str, body: bytes) -> None:
    client.request("SEND", {"destination": destination}, body)


def subscribe(client: Client, destination: str) -> None:
    client.request("SUBSCRIBE", {"id": "1", "destination": destination, "ack": "client-individual"})


def test_every_public_name_is_there() -> None:
    assert all(getattr(gateway.testing, name) is not None for name in gateway.testing.__all__)
    assert not hasattr(gateway.testing, "nothing")


def test_messages(started: LocalGateway) -> None:
    assert started.messages("/queue/work") == started.sent("/queue/work") == []
    started.send("/queue/work", '{"cups": 2}', {"colour": "green"})
    started.send("/queue/work", b"\xff")
    first, second = started.messages("/queue/work")
    assert (first.destination, first.json(), first.headers["colour"]) == ("/queue/work", {"cups": 2}, "green")
    assert (first.text, first.attempts, first.delayed) == ('{"cups": 2}', 0, False)
    assert second.body == b"\xff"
    with client_of(started) as client:
        send(client, "/topic/news", b"to all")
        send(client, "/queue/work", b"third")
    assert [each.text for each in started.sent("/topic/news")] == ["to all"]
    assert [each.body for each in started.sent("/queue/work")] == [b'{"cups": 2}', b"\xff", b"third"]


def test_many_messages_and_whole_bodies(started: LocalGateway) -> None:
    for number in range(1_000):
        started.send("/queue/work", f"{number}")
    started.send("/queue/work", b"x" * 100_000)
    found = started.messages("/queue/work")
    assert [each.text for each in found[:-1]] == [str(number) for number in range(1_000)]
    assert len(found[-1].body) == 100_000


def test_a_message_at_a_consumer(started: LocalGateway) -> None:
    with client_of(started) as client:
        subscribe(client, "/queue/work")
        started.wait_until(lambda: started.subscribers("/queue/work") == 1)
        started.send("/queue/work", "tea")
        assert started.messages("/queue/work") == []
        assert [each.text for each in started.unacknowledged("/queue/work")] == ["tea"]
    found = started.wait_until(lambda: started.messages("/queue/work"))
    assert [(each.text, each.attempts) for each in found] == [("tea", 1)]


def test_a_delay_and_an_expiry(started: LocalGateway) -> None:
    started.send("/queue/work", "late", {"x-delay": "60000"})
    started.send("/queue/work", "short", {"expiration": "30000"})
    assert [(each.text, each.delayed) for each in started.messages("/queue/work")] == [("short", False), ("late", True)]
    started.advance(31)
    assert [(each.text, each.delayed) for each in started.messages("/queue/work")] == [("late", True)]
    started.advance(30)
    assert [(each.text, each.delayed) for each in started.messages("/queue/work")] == [("late", False)]


def test_what_falls_due_does_so_at_its_own_time(started: LocalGateway) -> None:
    """An expiry begins with the arrival, though both are passed by one jump."""
    started.send("/queue/work", "second", {"x-delay": "7200000"})
    started.send("/queue/work", "first", {"x-delay": "3600000"})
    started.advance(86_400)
    assert [each.text for each in started.messages("/queue/work")] == ["first", "second"]


async def test_back_off_and_dead_letter() -> None:
    async with open_gateway(policy=BACK_OFF) as found, connect(found.url) as client:
        await client.send("/queue/work", "tea")
        async for message in client.subscribe("/queue/work"):
            await message.nack(reason="no cups")
            await found.async_wait_until(lambda: not found.unacknowledged("/queue/work"))
            if dead := found.messages("/queue/dlq.work"):
                break
            (waiting,) = found.messages("/queue/work")
            assert waiting.delayed
            found.advance(3600)
        assert [(each.text, each.headers["reason"]) for each in dead] == [("tea", "no cups")]


async def test_the_clock_of_connections_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    """A client that beats every second is not regarded as dead when the broker's clock jumps."""
    async with open_gateway() as found, connect(found.url, heartbeat=1) as client:
        found.advance(3600)
        found.advance(3600)
        await client.send("/queue/work", "still here")
        assert [each.text for each in found.messages("/queue/work")] == ["still here"]


def test_deduplication_follows_the_clock(started: LocalGateway) -> None:
    for seconds, count in ((0, 1), (0, 1), (86_400, 2)):
        started.advance(seconds)
        started.send("/queue/work", "tea", {"dedup-id": "1"})
        assert len(started.messages("/queue/work")) == count


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_a_clock_that_cannot_be_advanced(started: LocalGateway, seconds: float) -> None:
    with pytest.raises(ValueError, match="the clock cannot be advanced by"):
        started.advance(seconds)


def test_disconnect(started: LocalGateway) -> None:
    with start_gateway() as other, client_of(other) as untouched, client_of(started) as client:
        subscribe(client, "/queue/work")
        started.wait_until(lambda: started.subscribers("/queue/work"))
        started.disconnect()
        started.wait_until(lambda: not started.subscribers("/queue/work"))
        send(untouched, "/queue/work", b"tea")


def test_what_a_test_asks_wrongly(started: LocalGateway) -> None:
    with pytest.raises(ValueError, match=r"/topic/news is a topic, .*: look at gateway.sent\('/topic/news'\)"):
        started.messages("/topic/news")
    with pytest.raises(ValueError, match="x-delay"):
        started.send("/queue/work", "tea", {"x-delay": "soon"})
    with pytest.raises(ValueError):
        started.send("/nowhere/work", "tea")
    with pytest.raises(AssertionError, match=r"the condition is not met after 0.01 seconds: it is \[\]"):
        started.wait_until(lambda: started.messages("/queue/work"), timeout=0.01)


def test_http(started: LocalGateway) -> None:
    started.send("/queue/work", "tea")
    connection = http.client.HTTPConnection(started.http_url.removeprefix("http://"), timeout=30)
    connection.request("GET", "/api/v1/destinations")
    (row,) = json.load(connection.getresponse())["destinations"]
    assert (row["name"], row["depth"] if "depth" in row else row["waiting"]) == ("/queue/work", 1)
    connection.close()
    assert started.http_url == started.http_url


def test_a_start_that_fails_leaves_no_thread() -> None:
    with pytest.raises(Exception, match="handlers"), start_gateway(handlers="no_such_module"):
        pass
    assert not [each for each in threading.enumerate() if each.name == "gateway-of-test"]


def test_users_and_rules(tmp_path: object) -> None:
    """Rules are in force for clients, and not for what the test itself sends."""
    rules = [{"destination": "/queue/open", "users": ["*"], "allow": ["send"]}]
    with start_gateway(rule=rules) as found:
        found.send("/queue/closed", "tea")
        with client_of(found) as client, pytest.raises(Exception, match="closed"):
            send(client, "/queue/closed", b"milk")
        assert [each.text for each in found.messages("/queue/closed")] == ["tea"]
