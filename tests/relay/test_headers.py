"""What becomes of headers."""

from __future__ import annotations

import pytest

from gateway.client import StompServer
from gateway.codec import Frame, Head
from gateway.relay.headers import MOST_HOPS, Loop, onward
from gateway.relay.settings import RelayPlan, make

PLAN = make(StompServer("one"), StompServer("two"), ["/queue/a", "/topic/b.>", "/topic/c.>=/queue/c"], name="here")
MESSAGE = {"message-id": "m1", "destination": "/queue/a", "subscription": "/queue/a", "ack": "a1"}


def sent(route: int = 0, plan: RelayPlan = PLAN, **headers: str) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return onward(Frame(Head.of("MESSAGE", MESSAGE | named), b""), plan, plan.routes[route])


def test_those_of_the_delivery_stay_behind() -> None:
    found = sent(redelivered="true", delivery_count="2", receipt="r", transaction="t", content_length="0", user_id="u")
    assert found.keys() == {"destination", "relayed", "dedup-id"}


def test_others_go_on() -> None:
    own = {"x": "1", "priority": "4", "correlation-id": "c", "reply-to": "/queue/r", "expires": "1"}
    message = Frame(Head.of("MESSAGE", MESSAGE | own), b"")
    assert own.items() <= onward(message, PLAN, PLAN.routes[0]).items()


def test_a_reply_that_would_be_the_relays() -> None:
    assert "reply-to" not in sent(reply_to="/temp-queue/r")


@pytest.mark.parametrize(
    ("route", "destination", "target"),
    [(0, "/queue/other", "/queue/a"), (1, "/topic/b.x", "/topic/b.x"), (2, "/topic/c.x", "/queue/c")],
)
def test_where_it_goes(route: int, destination: str, target: str) -> None:
    assert sent(route, destination=destination)["destination"] == target


class TestDedup:
    def test_the_same_message_has_the_same(self) -> None:
        first = sent(redelivered="false", ack="a1")["dedup-id"]
        assert first == sent(redelivered="true", ack="a2")["dedup-id"]
        assert 1 <= len(first) <= 1000

    def test_others_have_others(self) -> None:
        elsewhere = make(StompServer("three"), StompServer("two"), ["/queue/a"], name="here")
        found = [sent(), sent(message_id="m2"), sent(destination="/queue/b"), sent(plan=elsewhere)]
        assert len({each["dedup-id"] for each in found}) == 4

    def test_its_own_stays(self) -> None:
        assert sent(dedup_id="mine")["dedup-id"] == "mine"
        assert "dedup-id" not in onward(
            Frame(Head.of("MESSAGE", MESSAGE | {"_AMQ_DUPL_ID": "mine"}), b""), PLAN, PLAN.routes[0]
        )

    def test_an_empty_one_is_none(self) -> None:
        assert sent(dedup_id="")["dedup-id"] == sent()["dedup-id"]


class TestHops:
    def test_are_named(self) -> None:
        assert sent()["relayed"] == "here"
        assert sent(relayed="a,b")["relayed"] == "a,b,here"

    def test_its_own_name(self) -> None:
        with pytest.raises(Loop, match="has passed the relay here before"):
            sent(relayed="a,here,b")

    def test_too_many(self) -> None:
        passed = [f"r{number}" for number in range(MOST_HOPS)]
        assert sent(relayed=",".join(passed[1:]))["relayed"].endswith(",here")
        with pytest.raises(Loop, match=f"{MOST_HOPS} may be"):
            sent(relayed=",".join(passed))
