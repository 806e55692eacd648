"""The look at the destinations one by one: what it adds up, in rounds, and whom it shows."""

from __future__ import annotations

import pytest

from gateway.broker import Broker
from gateway.broker.model.options import PLAIN
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.codec import V12, Frame, Head
from gateway.observe import destination_metrics as module
from gateway.observe.destination_metrics import DestinationMetrics
from tests.observe.everything import Carrier


def deposit(broker: Broker, *names: str) -> None:
    for name in names:
        broker.deposit(name, Head.of("SEND", {"destination": name}), b"hello", PLAIN)


def subscribe(broker: Broker, destination: str) -> None:
    session = broker.open_session(V12, "bob", peer="p", transport="tcp", connected_at=0.0, carrier=Carrier())
    session.handle(Frame(Head.of("SUBSCRIBE", {"id": "1", "destination": destination, "ack": "client"}), b""))


def found(survey: DestinationMetrics) -> dict[str, float]:
    return {
        sample.name.removeprefix("gateway_") + "".join(sample.labels.values()): sample.value
        for family in survey.metrics()
        for sample in family.samples
    }


class TestSums:
    def test_what_waits_where_no_consumer_is(self) -> None:
        broker = Broker(policies=Policies([(Pattern("/queue/a"), {"max_messages": 2})]))
        deposit(broker, "/queue/a", "/queue/a", "/queue/b", "/queue/c", "/topic/t")
        deposit(broker, "/queue/dlq.a", "/queue/graveyard", "/queue/graveyard")  # dead letters by name and by policy
        subscribe(broker, "/queue/c")
        assert found(DestinationMetrics(broker, {"/queue/graveyard"})) == {
            "messages_unconsumed": 3,
            "queues_unconsumed": 2,
            "dead_letters_waiting": 3,
            "queues_full": 1,
            "oldest_message_age_seconds": 0,
            "destinations_losing": 0,
        }

    def test_a_round_takes_scrapes_and_shows_the_last_one_that_is_complete(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "PER_SCRAPE", 2)
        broker = Broker()
        deposit(broker, "/queue/a", "/queue/b", "/queue/c", "/queue/d", "/queue/e")
        survey = DestinationMetrics(broker)
        shown = [found(survey)["messages_unconsumed"] for _ in range(3)]
        deposit(broker, "/queue/a")
        assert [*shown, *[found(survey)["messages_unconsumed"] for _ in range(3)]] == [0, 0, 5, 5, 5, 6]


def test_the_age_of_the_oldest_message() -> None:
    """Of all but dead letters; what a consumer has waits no longer."""
    now = [0.0]
    broker = Broker(clock=lambda: now[0])
    broker.dates.note(0)
    for name in ("/queue/dlq.a", "/queue/a", "/queue/b", "/queue/a"):
        deposit(broker, name)
        now[0] += 10
        broker.dates.note(broker.router.number)
    survey = DestinationMetrics(broker, (), ["/queue/#"])
    shown = {name.rpartition("_seconds")[2]: age for name, age in found(survey).items() if "_age_" in name}
    assert shown == {"": 20, "/queue/a": 20, "/queue/b": 10, "/queue/dlq.a": 30}
    for name, age in (("/queue/a", 10), ("/queue/b", 0)):
        subscribe(broker, name)
        assert found(survey)["oldest_message_age_seconds"] == age


class TestShown:
    def test_by_name_and_by_pattern(self) -> None:
        broker = Broker()
        deposit(broker, "/queue/a", "/queue/a", "/queue/orders.eu", "/queue/b")
        subscribe(broker, "/queue/orders.eu")
        subscribe(broker, "/topic/t")
        sums = found(DestinationMetrics(broker, (), ["/queue/a", "/queue/orders.#", "/topic/t", "/queue/nobody"]))
        shown = {name: value for name, value in sums.items() if name.startswith("destination_")}
        assert shown.pop("destination_waiting_bytes/queue/a") > 600
        assert {name: value for name, value in shown.items() if value} == {
            "destination_messages_waiting/queue/a": 2,
            "destination_messages_unacknowledged/queue/orders.eu": 1,
            "destination_subscriptions/queue/orders.eu": 1,
            "destination_subscriptions/topic/t": 1,
            "destination_messages_total/queue/apublished": 2,
            "destination_messages_total/queue/orders.eupublished": 1,
            "destination_messages_total/queue/orders.eudelivered": 1,
        }
        assert len(shown) == 3 * 12 - 1

    def test_who_is_named_has_a_place_whatever_patterns_find(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_SHOWN", 3)
        broker = Broker()
        deposit(broker, "/queue/a", "/queue/b", "/queue/c", "/queue/d")
        survey = DestinationMetrics(broker, (), ["/queue/late", "/queue/*", "/queue/late"])
        assert {name[-1] for name in found(survey) if name.startswith("destination_subscriptions")} == {"a", "b"}
        deposit(broker, "/queue/late")
        for _ in range(2):
            shown = [name for name in found(survey) if name.startswith("destination_subscriptions")]
            assert [name.rpartition("/")[2] for name in shown] == ["late", "a", "b"]
