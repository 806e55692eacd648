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
    named = {name if name.startswith("_") else name.replace("_", "-"): value for name, value in headers.items()}
    return onward(Frame(Head.of("MESSAGE", MESSAGE | named), b""), plan, plan.routes[route])


def test_what_stays_behind_and_what_goes_on() -> None:
    delivery = {"redelivered": "true", "delivery_count": "2", "receipt": "r", "transaction": "t", "user_id": "u"}
    assert sent(**delivery, content_length="0").keys() == {"destination", "relayed", "dedup-id"}
    own = {"x": "1", "priority": "4", "correlation-id": "c", "reply-to": "/queue/r", "expires": "1"}
    assert own.items() <= sent(**own).items()
    assert "reply-to" not in sent(reply_to="/temp-queue/r"), "it would name a destination of the relay"


@pytest.mark.parametrize(
    ("route", "destination", "target"),
    [(0, "/queue/other", "/queue/a"), (1, "/topic/b.x", "/topic/b.x"), (2, "/topic/c.x", "/queue/c")],
)
def test_where_it_goes(route: int, destination: str, target: str) -> None:
    assert sent(route, destination=destination)["destination"] == target


def test_dedup_ids() -> None:
    first = sent(redelivered="false", ack="a1")["dedup-id"]
    assert first == sent(redelivered="true", ack="a2")["dedup-id"] == sent(dedup_id="")["dedup-id"]
    assert 1 <= len(first) <= 1000
    elsewhere = make(StompServer("three"), StompServer("two"), ["/queue/a"], name="here")
    others = [sent(message_id="m2"), sent(destination="/queue/b"), sent(plan=elsewhere)]
    assert len({first, *[each["dedup-id"] for each in others]}) == 4
    assert sent(dedup_id="mine")["dedup-id"] == "mine"
    assert "dedup-id" not in sent(_AMQ_DUPL_ID="mine")


def test_hops() -> None:
    assert sent()["relayed"] == "here"
    assert sent(relayed="a,b")["relayed"] == "a,b,here"
    with pytest.raises(Loop, match="has passed the relay here before"):
        sent(relayed="a,here,b")
    passed = [f"r{number}" for number in range(MOST_HOPS)]
    assert sent(relayed=",".join(passed[1:]))["relayed"].endswith(",here")
    with pytest.raises(Loop, match=f"{MOST_HOPS} may be"):
        sent(relayed=",".join(passed))
