"""Metrics: everything the broker counts is shown, under names that Prometheus accepts, with bounded labels."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.broker import Broker
from gateway.broker.counters import Counters
from gateway.broker.options import PLAIN
from gateway.codec import V12, Head
from gateway.observe.metrics import COUNTERS, Metrics


class Carrier:
    """A connection that nobody ends."""

    def end(self, error: Exception) -> None:
        raise AssertionError(error)


def samples(metrics: Metrics) -> dict[str, float]:
    """Name and labels -> value."""
    content, _ = metrics.render("")
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sample.labels.items()): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def test_every_counter_is_shown() -> None:
    assert {attribute for attribute, _, _ in COUNTERS} == set(Counters.__slots__)


def test_every_metric_has_a_help_and_no_name_is_used_twice() -> None:
    content, _ = Metrics(Broker(), ()).render("")
    helps = [line.split(maxsplit=3) for line in content.decode().splitlines() if line.startswith("# HELP")]
    names = [words[2] for words in helps]
    assert len(names) == len(set(names))
    assert all(len(words) == 4 for words in helps)


def test_names_are_unique_to_open_metrics_too() -> None:
    """There a counter goes by its name without `_total`."""
    content, _ = Metrics(Broker(), ()).render("application/openmetrics-text; version=1.0.0")
    names = [line.split()[2] for line in content.decode().splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_counters_are_read_when_asked() -> None:
    broker = Broker()
    metrics = Metrics(broker, ())
    assert samples(metrics)["gateway_messages_delivered_total"] == 0
    for number, (attribute, _, _) in enumerate(COUNTERS, 1):
        setattr(broker.counters, attribute, number)
    found = samples(metrics)
    for number, (_, name, _) in enumerate(COUNTERS, 1):
        assert found[f"{name}_total"] == number


def test_gauges() -> None:
    broker = Broker()
    broker.keep(1234)
    for login, transport in (("alice", "tcp"), ("bob", "tcp"), ("carol", "websocket")):
        broker.open_session(V12, login, peer="p", transport=transport, connected_at=0.0, carrier=Carrier())
    found = samples(Metrics(broker, ["held", "held"]))
    assert found["gateway_publishers_held"] == 2
    assert found["gateway_sessions_connected{transport=tcp}"] == 2
    assert found["gateway_sessions_connected{transport=websocket}"] == 1
    assert found["gateway_destinations"] == 0
    assert found["gateway_stored_bytes"] == 1234
    assert found["gateway_memory_limit_bytes"] == broker.quotas.memory_limit
    assert found["process_resident_memory_bytes"] > 0


@pytest.mark.parametrize("count", [0, 50])
def test_clients_make_no_time_series(count: int) -> None:
    broker = Broker()
    before = len(samples(Metrics(broker, ())))
    for number in range(count):
        name = f"/queue/{number}"
        broker.deposit(name, Head.of("SEND", {"destination": name}), b"", PLAIN)
        broker.open_session(
            V12, f"user {number}", peer=str(number), transport="tcp", connected_at=0.0, carrier=Carrier()
        )
    assert len(broker.destinations) == count
    assert len(samples(Metrics(broker, ()))) == before
