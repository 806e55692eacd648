"""Lists of sessions and subscriptions: rows, pages, order and filters; and the end of sessions."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
import trio

from gateway.admin import listing
from gateway.broker.admin import rows
from gateway.broker.core.ports import INTERNAL
from gateway.codec import V12
from tests.observe.everything import Carrier
from tests.transports.peers import Peer

from .running import Running


async def clients(site: Running, *logins: str) -> list[Peer]:
    return [await site.peer(login=login) for login in logins]


async def close(*peers: Peer) -> None:
    for peer in peers:
        await peer.aclose()


class TestSessions:
    async def test_one_with_its_subscriptions(self, site: Running) -> None:
        (alice,) = await clients(site, "alice")
        await alice.subscribe("/queue/a", id="1")
        (row,) = (await site.get("sessions"))["sessions"]
        found = await site.get(f"sessions/{row['id']}")
        (subscription,) = found.pop("subscription_list")
        assert found["id"] == row["id"]
        assert (subscription["destination"], subscription["id"], subscription["login"]) == ("/queue/a", "1", "alice")
        for method in ("GET", "DELETE"):
            answer = await site.ask(method, "sessions/nobody")
            assert (answer.status, answer.error) == (404, "there is no such session")
        await close(alice)

    async def test_rows_in_order_and_filters(self, site: Running) -> None:
        peers = [await site.peer(login="bob", client_id="desk"), await site.peer("websocket", login="Alice")]
        await peers[0].subscribe("/queue/a")
        answer = await site.get("sessions")
        assert (answer["total"], answer["limit"], answer["offset"]) == (2, 100, 0)
        keys = ("login", "client_id", "transport", "subscriptions", "held")
        assert [tuple(row[key] for key in keys) for row in answer["sessions"]] == [
            ("bob", "desk", "tcp", 1, None),
            ("Alice", "", "websocket", 0, None),
        ]
        for query, logins, total in (
            ({"sort": "-connected_at", "limit": 1}, ["Alice"], 2),
            ({"sort": "login", "offset": 1}, ["bob"], 2),
            ({"q": "AL"}, ["Alice"], 1),
            ({"login": "bob"}, ["bob"], 1),
            ({"login": "bob", "transport": "websocket"}, [], 0),
        ):
            answer = await site.get("sessions", **query)  # type: ignore[arg-type]
            assert ([row["login"] for row in answer["sessions"]], answer["total"]) == (logins, total), query
        await close(*peers)


class TestEndSession:
    async def test_its_client_is_told_why(self, site: Running) -> None:
        for query, told in (({"reason": "maintenance at noon"}, b"maintenance at noon"), ({}, b"operator")):
            (alice,) = await clients(site, "alice")
            (row,) = (await site.get("sessions"))["sessions"]
            for reason in ("two\nlines", "x" * 201, "nul\0"):
                answer = await site.ask("DELETE", f"sessions/{row['id']}", reason=reason)
                assert (answer.status, answer.error) == (400, "reason must be one line of at most 200 characters")
            answer = await site.ask("DELETE", f"sessions/{row['id']}", **query)  # type: ignore[arg-type]
            assert (answer.status, answer.body) == (204, b"")
            error = await alice.at_end_after_error()
            assert (error["message"], told in error.body) == ("session ended", True)
            await close(alice)


class TestEndSessionsOf:
    async def test_each_is_told_why_and_others_stay(self, site: Running) -> None:
        """Functions are no users, though a user may have the name of their session."""
        functions = site.gateway.broker.open_session(
            V12, "alice", peer=INTERNAL, transport=INTERNAL, connected_at=0.0, carrier=Carrier()
        )
        alice, also, bob = await clients(site, "alice", "alice", "bob")
        with structlog.testing.capture_logs() as logs:
            answer = await site.ask("DELETE", "sessions", login="alice", reason="she has left")
        assert (answer.status, answer.json) == (200, {"ended": 2})
        for peer in (alice, also):
            error = await peer.at_end_after_error()
            assert (error["message"], error.body) == ("session ended", b"she has left")
        (line,) = [line for line in logs if line["event"] == "admin"]
        keys = ("action", "target", "outcome", "told", "ended")
        assert [line[key] for key in keys] == ["end sessions of user", "alice", "done", "she has left", 2]
        await bob.settled()
        assert "bob" in [row["login"] for row in (await site.get("sessions"))["sessions"]]
        await close(alice, also, bob)
        functions.close()

    async def test_a_wrong_query_or_an_unknown_user_ends_no_session(self, site: Running) -> None:
        (alice,) = await clients(site, "alice")
        wrong: list[tuple[dict[str, str], str]] = [
            ({}, "login is missing: the user"),
            ({"login": "alice", "reason": "two\nlines"}, "reason must be one line of at most 200 characters"),
            ({"login": "alice", "transport": "tcp"}, "this has no parameter 'transport'; it has reason, login"),
        ]
        for query, sentence in wrong:
            answer = await site.ask("DELETE", "sessions", **query)  # type: ignore[arg-type]
            assert (answer.status, answer.error) == (400, sentence)
        for name in ("bob", "Alice", "alice ", ""):
            assert (await site.ask("DELETE", "sessions", login=name)).json == {"ended": 0}
        await alice.settled()
        await close(alice)


class TestSubscriptions:
    async def test_rows_and_filters(self, site: Running) -> None:
        alice, bob = await clients(site, "alice", "bob")
        await alice.subscribe("orders", id="1", ack="client")
        await alice.subscribe("/topic/a.*", id="2")
        await bob.subscribe("/queue/orders", id="1", selector="size > 1")
        answer = await site.get("subscriptions", sort="-login")
        assert [(row["login"], row["destination"], row["target"]) for row in answer["subscriptions"]] == [
            ("bob", "/queue/orders", "/queue/orders"),
            ("alice", "orders", "/queue/orders"),
            ("alice", "/topic/a.*", "/topic/a.*"),
        ]
        assert (answer["subscriptions"][0]["selector"], answer["subscriptions"][1]["ack"]) == ("size > 1", "client")
        session = answer["subscriptions"][0]["session"]
        for query, total in (
            ({"destination": "/queue/orders"}, 2),
            ({"destination": "orders"}, 1),
            ({"session": session}, 1),
            ({"login": "alice", "q": "TOPIC"}, 1),
        ):
            assert (await site.get("subscriptions", **query))["total"] == total
        await close(alice, bob)


class Rounds(trio.abc.Instrument):
    """Counts what is done in each round of the loop."""

    def __init__(self) -> None:
        self.now = self.most = self.total = 0

    def before_io_wait(self, timeout: float) -> None:
        self.now = 0

    def look(self) -> None:
        self.now += 1
        self.total += 1
        self.most = max(self.most, self.now)


class TestAtOnce:
    @pytest.mark.parametrize(
        ("path", "name", "keys"),
        [("destinations", "name", rows.DESTINATION_KEYS), ("subscriptions", "target", rows.SUBSCRIPTION_KEYS)],
    )
    async def test_many_lists_hold_up_others_no_longer_than_one(
        self, site: Running, monkeypatch: pytest.MonkeyPatch, path: str, name: str, keys: dict[str, Any]
    ) -> None:
        peer = await site.peer()
        for number in range(50):
            await peer.subscribe(f"/queue/{number}", id=str(number))
        monkeypatch.setattr(listing, "SLICE", 10)
        rounds, key = Rounds(), keys[name]
        monkeypatch.setitem(keys, name, lambda entry: (rounds.look(), key(entry))[1])
        trio.lowlevel.add_instrument(rounds)
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await site.get(path, sort=name, limit=1))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ask)
        trio.lowlevel.remove_instrument(rounds)
        assert [answer["total"] for answer in answers] == [50] * 10
        assert rounds.total >= 500
        assert rounds.most <= 20
        await close(peer)
