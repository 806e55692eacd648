"""Publishing over HTTP: shapes of bodies, logins and rules, batches, repeats, and what is refused with which status."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.admin.applications import publish, requests
from gateway.auth import passwords
from tests.app.asgi import Answer
from tests.transports.peers import Received, until

from ..running import Running, running

HASH = passwords.hash_passcode("right")
ADA = {"authorization": "Basic " + base64.b64encode(b"ada:right").decode()}
WRONG = {"authorization": "Basic " + base64.b64encode(b"ada:wrong").decode()}
PASSCODE = {"login": "ada", "passcode": "right"}

Make = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users").write_text(f"ada:{HASH}\n")

    @asynccontextmanager
    async def make(**changes: object) -> AsyncIterator[Running]:
        rules = [
            {"destination": "/queue/#", "users": ["ada"], "allow": ["subscribe"]},
            {"destination": "/queue/*", "users": ["ada"], "allow": ["send"]},
            {"destination": "/topic/#", "users": ["ada"], "allow": ["subscribe"]},
            {"destination": "/topic/nobody", "users": ["ada"], "allow": ["send"]},  # of `Peer.settled`
        ]
        async with running(**{"users_file": tmp_path / "users", "rule": rules, **changes}) as site:
            yield site

    return make


@pytest.fixture
async def site(make: Make) -> AsyncIterator[Running]:
    async with make() as found:
        found.headers = ADA
        yield found


async def post(site: Running, body: object, status: int = 200, **query: object) -> Answer:
    answer = await site.ask("POST", "messages", body, **query)  # type: ignore[arg-type]
    assert answer.status == status, answer.body
    return answer


async def received(site: Running, destination: str, count: int) -> list[Received]:
    peer = await site.peer(**PASSCODE)
    found = await peer.subscribe_and_read(destination, count)
    await peer.settled()  # and nothing more
    await peer.aclose()
    return found


MESSAGES: dict[str, tuple[object, bytes, dict[str, str]]] = {
    "text": ({"destination": "/queue/a", "body": "grün"}, "grün".encode(), {}),
    "without a body": ({"destination": "/queue/a"}, b"", {}),
    "json": ({"destination": "/queue/a", "body": {"tea": 2}}, b'{"tea": 2}', {"content-type": "application/json"}),
    "bytes": ({"destination": "/queue/a", "body": "/wA=", "body_encoding": "base64"}, b"\xff\0", {}),
    "headers": ({"destination": "/queue/a", "headers": {"kind": "x", "priority": "7"}}, b"", {"kind": "x"}),
}


@pytest.mark.parametrize("name", MESSAGES)
async def test_a_message(site: Running, name: str) -> None:
    asked, body, headers = MESSAGES[name]
    assert (await post(site, asked)).json == {"published": 1}
    (message,) = await received(site, "/queue/a", 1)
    assert message.body == body
    assert headers.items() <= message.headers.items()


async def test_the_body_as_it_is(site: Running) -> None:
    site.headers = {**ADA, "content-type": "application/json", "stomp-kind": "x"}
    await post(site, b'{"tea":2}', destination="/queue/a")
    (message,) = await received(site, "/queue/a", 1)
    assert (message.body, message["content-type"], message["kind"]) == (b'{"tea":2}', "application/json", "x")


async def test_several_are_one_transaction(site: Running) -> None:
    found = [{"destination": "/queue/a", "body": str(number)} for number in range(3)]
    assert (await post(site, {"messages": found})).json == {"published": 3}
    assert [each.body for each in await received(site, "/queue/a", 3)] == [b"0", b"1", b"2"]
    answer = await post(site, {"messages": [*found, {"destination": "/queue/not.hers"}, *found]}, 403)
    assert answer.error.startswith("message 3 of 7, so none is sent: access refused: ")
    await post(site, {"destination": "/queue/a", "body": "behind"})
    assert [each.body for each in await received(site, "/queue/a", 1)] == [b"behind"]


async def test_a_request_that_is_repeated_is_one_message(site: Running) -> None:
    site.headers = {**ADA, "idempotency-key": "order-7"}
    for _ in range(2):
        await post(site, {"destination": "/queue/a", "body": "one"})
        await post(site, {"messages": [{"destination": "/queue/b", "body": each} for each in ("x", "y")]})
    assert [each.body for each in await received(site, "/queue/a", 1)] == [b"one"]
    assert [each.body for each in await received(site, "/queue/b", 2)] == [b"x", b"y"]


async def test_a_durable_message_is_stored_when_the_answer_comes(make: Make, tmp_path: Path) -> None:
    policy = [{"match": "/queue/#", "durable": True}]
    async with make(store=f"sqlite:{tmp_path}/s.db", policy=policy) as site:
        site.headers = ADA
        await post(site, {"destination": "/queue/a"})
        storage = site.gateway.broker.storage
        assert storage is not None
        assert 0 < storage.last_changed <= storage.committed


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no json": ({"body": b"two cups"}, 400, "body: it is not JSON"),
    "no message": ({"body": {"dest": "/queue/a"}}, 400, "body: the field 'destination' is missing"),
    "another field": ({"body": {"destination": "/queue/a", "x": 1}}, 400, "body: there is no field 'x'"),
    "no base64": (
        {"body": {"destination": "/queue/a", "body": "?", "body_encoding": "base64"}},
        400,
        "body: message 0: the field 'body' is no base64",
    ),
    "none": ({"body": {"messages": []}}, 400, "body: it has 0 messages, and must have 1 to 1,000"),
    "a header of the session": (
        {"body": {"destination": "/queue/a", "headers": {"receipt": "x"}}},
        400,
        "headers: 'receipt' cannot be set here, leave it out",
    ),
    "a header that no frame holds": (
        {"body": {"destination": "/queue/a", "headers": {"a": "\0"}}},
        400,
        "headers: no frame can hold 'a'",
    ),
    "no destination": ({"body": {"destination": "/nowhere"}}, 400, "unsupported kind of destination: "),
    "against the rules": ({"body": {"destination": "/topic/a"}}, 403, "access refused: "),
    "a wrong login": (
        {"body": {"destination": "/queue/a"}, "headers": WRONG},
        401,
        "login refused: login and passcode",
    ),
    "another media type": (
        {"body": b"x", "headers": {"content-type": "text/plain"}},
        415,
        "the body must be application/json, or the query must have a destination for it as it is",
    ),
    "a page of elsewhere": (
        {"body": {"destination": "/queue/a"}, "headers": {"origin": "https://evil.example"}},
        403,
        "the origin 'https://evil.example' is not allowed",
    ),
    "a key that is too long": (
        {"body": {"destination": "/queue/a"}, "headers": {"idempotency-key": "k" * 201}},
        400,
        "Idempotency-Key must be printable, with at most 200 characters",
    ),
    "too large": ({"body": b" " * 2_000_000}, 413, "the body is larger than 1048576 bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(site: Running, name: str) -> None:
    asked, status, sentence = REFUSED[name]
    answer = await site.ask("POST", "messages", **asked)
    assert answer.status == status, answer.body
    assert answer.error.startswith(sentence)
    assert ("www-authenticate" in answer.headers) == (status == 401)


async def test_without_a_login(make: Make) -> None:
    async with make() as site:
        assert (await post(site, {"destination": "/queue/a"}, 401)).headers["www-authenticate"].startswith("Bearer")
    async with make(users_file=None, rule=()) as site:
        await post(site, {"destination": "/queue/a"})


async def test_while_it_drains(site: Running) -> None:
    await post(site, {"destination": "/queue/a"})
    site.gateway.begin_drain()
    await until(lambda: not site.gateway.broker.sessions)
    answer = await post(site, {"destination": "/queue/a"}, 503)
    assert (answer.error.partition(":")[0], answer.headers["retry-after"]) == ("server is shutting down", "2")


class TestSessions:
    async def test_requests_of_one_login_share_a_session(self, site: Running) -> None:
        for _ in range(3):
            await post(site, {"destination": "/queue/a"})
        (session,) = site.gateway.broker.sessions.values()
        assert (session.login, session.transport) == ("ada", "websocket")
        await site.ask("POST", "messages", {"destination": "/queue/a"}, headers=WRONG)
        assert len(site.gateway.broker.sessions) == 1

    async def test_those_at_a_time_have_one_each(self, site: Running) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(post, site, {"destination": "/queue/a"})
        assert 1 <= len(site.gateway.broker.sessions) <= 3
        assert site.gateway.broker.counters.published == 3

    async def test_one_that_has_ended_is_replaced(self, site: Running) -> None:
        await post(site, {"destination": "/queue/a"})
        (session,) = site.gateway.broker.sessions.values()
        await site.ask("DELETE", f"sessions/{session.id}")
        await until(lambda: not site.gateway.broker.sessions)
        await post(site, {"destination": "/queue/a"})

    async def test_it_ends_when_no_request_comes(self, site: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requests, "_LONGEST_IDLE", 0.01)
        await post(site, {"destination": "/queue/a"})
        await until(lambda: not site.gateway.broker.sessions)


class TestWaiting:
    @pytest.mark.parametrize(
        ("values", "status", "why"),
        [
            ({"policy": [{"match": "/queue/a", "max_messages": 1, "when_full": "block"}]}, 503, "queue full"),
            ({"max_frames_per_second_per_user": 1}, 429, "max_frames_per_second_per_user"),
        ],
    )
    async def test_no_receipt_in_time(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, values: dict[str, object], status: int, why: str
    ) -> None:
        monkeypatch.setattr(publish, "_LONGEST_WAIT", 0.2)
        async with make(**values) as site:
            site.headers = {**ADA, "idempotency-key": "k"}
            for _ in range(20):
                answer = await site.ask("POST", "messages", {"destination": "/queue/a"})
                if answer.status != 200:
                    break
            assert answer.status == status
            assert answer.error.startswith(f"no RECEIPT came within 0.2 s ({why}), and the messages may still be")
            assert answer.headers["retry-after"] == "1"
