"""The settings of what an operator sees: metrics of single destinations, and traces.

They are a part of `gateway.config.settings.Settings`, which reads and checks them together with the rest.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

from gateway.broker.errors import NotAllowed
from gateway.broker.model.destinations import FANOUT, canonical
from gateway.broker.model.patterns import check_pattern, has_wildcard
from gateway.config import toml_file

_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_KINDS = ("/queue/", "/topic/", "/exchange/amq.direct/")


def _are_patterns(value: list[str]) -> list[str]:
    for text in value:
        if text != FANOUT and not text.startswith(_KINDS):
            raise ValueError(
                f"{text!r} is no queue and no topic; write it whole, like /queue/orders or /queue/orders.#"
            )
        try:
            check_pattern(text, text)
            if not has_wildcard(text):
                canonical(text)
        except NotAllowed as error:
            raise ValueError(f"{text!r} is no pattern: {error.detail}") from None
    return value


def _is_endpoint(value: str) -> str:
    shown = re.sub(r"//[^/]*@", "//(hidden)@", value)
    if shown != value:
        raise ValueError(
            f"{shown!r} has a password in it; what the collector asks for goes into the variable {_HEADERS}"
        )
    if value and not re.fullmatch(r"https?://[^/?#\s]+/\S*", value):
        raise ValueError(f"{value!r} is no collector's address; write it whole, like http://127.0.0.1:4318/v1/traces")
    return value


Patterns = Annotated[list[str], NoDecode, BeforeValidator(toml_file.listed), AfterValidator(_are_patterns)]
Endpoint = Annotated[str, AfterValidator(_is_endpoint)]


class Observe(BaseSettings):
    """Settings of metrics and traces."""

    metrics_destinations: Patterns = Field(
        [],
        description="Queues and topics that have metrics of their own, by name or pattern (like `/queue/orders.#`), "
        "comma-separated: 100 of them at most, the first that are found. Each is four time series. See "
        "[metrics](metrics.md).",
    )
    trace_endpoint: Endpoint = Field(
        "",
        description="Where spans go, as OTLP over HTTP: the whole address, like `http://127.0.0.1:4318/v1/traces`. "
        "Needs the extra `otel` of the wheel. Empty: nothing is traced. See [tracing](tracing.md).",
    )
    trace_ratio: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Part of the messages that are traced of those that come without a `traceparent`; with one, its "
        "flag decides.",
    )
