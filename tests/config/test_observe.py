"""The settings of metrics and traces: what may be written, and what is said of anything else."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.config.settings import Settings


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", []),
        ("/queue/a", ["/queue/a"]),
        ("/queue/orders.#,/topic/*.eu", ["/queue/orders.#", "/topic/*.eu"]),
        (["/exchange/amq.direct/a"], ["/exchange/amq.direct/a"]),
        (["/exchange/amq.fanout"], ["/exchange/amq.fanout"]),
    ],
)
def test_destinations(written: object, read: list[str]) -> None:
    assert Settings(metrics_destinations=written).metrics_destinations == read  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "written", "sentence"),
    [
        ("metrics_destinations", "orders", "'orders' is no queue and no topic; write"),
        ("metrics_destinations", "/temp-queue/a", "'/temp-queue/a' is no queue and no topic"),
        ("metrics_destinations", "/queue/", "'/queue/' is no pattern"),
        ("metrics_destinations", "/exchange/amq.fanout/a", "'/exchange/amq.fanout/a' is no queue and no topic"),
        ("metrics_destinations", "/queue/#.a.#.b", "'/queue/#.a.#.b' is no pattern"),
        ("trace_endpoint", "localhost:4318", "'localhost:4318' is no address of a collector; write a full one"),
        ("trace_endpoint", "http://localhost:4318", "'http://localhost:4318' is no address of a collector"),
        (
            "trace_endpoint",
            "http://user:sesame@host/v1/traces",
            "'http://(hidden)@host/v1/traces' has a password in it",
        ),
        ("trace_ratio", 1.1, "less than or equal to 1"),
        ("trace_ratio", -0.1, "greater than or equal to 0"),
    ],
)
def test_what_is_wrong(name: str, written: object, sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{name: written})  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_nothing_of_it_is_on() -> None:
    settings = Settings()
    assert (settings.metrics_destinations, settings.trace_endpoint, settings.trace_ratio) == ([], "", 0.1)
