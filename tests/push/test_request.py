"""The request that a message becomes, and what an answer means."""

from __future__ import annotations

import time
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.push.request import LONGEST_RETRY, Verdict, headers_of, id_of, read_answer, retry_after


def message(body: bytes = b"tea", **headers: str) -> Any:
    """A message; `_` stands for `-`."""
    return SimpleNamespace(headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body)


def made(more: dict[str, str] | None = None, **headers: str) -> dict[str, str]:
    pairs = headers_of(message(**{"message_id": "a-1", **headers}), (), more or {}, 1, is_ours=True)
    return {name.decode(): value.decode() for name, value in pairs}


def test_all_headers() -> None:
    found = made(
        content_type="application/json",
        destination="/queue/a",
        ack="1-1",
        subscription="0",
        content_length="3",
        tenant="7",
        traceparent="00-a-b-01",
    )
    assert found == {
        "content-type": "application/json",
        "user-agent": "stomp-gateway",
        "traceparent": "00-a-b-01",
        "webhook-id": "a-1",
        "webhook-timestamp": "1",
        "stomp-message-id": "a-1",
        "stomp-destination": "/queue/a",
        "stomp-tenant": "7",
    }


def test_without_a_type() -> None:
    assert "content-type" not in made()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("50 %", "50 %25"),
        ("a\r\nhost: b", "a%0D%0Ahost: b"),
        ("Käse", "K%C3%A4se"),
        (" a  ", "%20a%20%20"),
        ("  ", "%20%20"),
        ("", ""),
        ("\0\x7f", "%00%7F"),
    ],
)
def test_values_cannot_begin_another_header(value: str, expected: str) -> None:
    assert made(a=value)["stomp-a"] == expected
    assert made(content_type=value).get("content-type", "") == expected


def test_names_that_are_no_tokens_are_left_out() -> None:
    assert not [name for name in made(**{"a b": "1", "a:b": "1", "ä": "1", "a\r\nb": "1", "": "1"}) if "1" in name]


def test_headers_of_the_settings_come_last() -> None:
    found = made({"Authorization": "Bearer a", "Content-Type": "text/plain"}, content_type="b")
    assert (found["Authorization"], found["Content-Type"]) == ("Bearer a", "text/plain")
    assert "content-type" not in found


def test_ids_of_other_servers() -> None:
    """RabbitMQ gives a redelivered message another message-id."""
    assert id_of(message(message_id="T_1", dedup_id="d"), is_ours=True) == "T_1"
    assert id_of(message(message_id="T_1", dedup_id="d"), is_ours=False) == "d"
    assert id_of(message(message_id="T_1", amqp_message_id="m"), is_ours=False) == "m"
    assert id_of(message(message_id="T_1"), is_ours=False) == "T_1"


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        *((status, Verdict.TAKEN) for status in (200, 201, 202, 204, 299)),
        *((status, Verdict.REFUSED) for status in (400, 401, 404, 409, 410, 413, 422, 431)),
        *((status, Verdict.FAILED) for status in (301, 302, 307, 308, 408, 425, 429, 500, 502, 503, 504, 599)),
    ],
)
def test_answers(status: int, verdict: Verdict) -> None:
    assert read_answer(status, {}, b"").verdict is verdict


def test_reasons() -> None:
    json = {"content-type": "application/json; charset=utf-8"}
    assert read_answer(422, json, b'{"error":\n "no \x07 order"}').reason == (
        'the endpoint answered 422: {"error": "no ? order"}'
    )
    assert read_answer(404, {"content-type": "text/html"}, b"<html>").reason == "the endpoint answered 404"
    assert len(read_answer(400, json, b"x" * 5000).reason) < 200
    assert read_answer(302, {}, b"").reason.endswith("redirects are not followed")


@pytest.mark.parametrize("status", [429, 503])
def test_an_endpoint_that_asks_for_time(status: int) -> None:
    found = read_answer(status, {"retry-after": "7"}, b"")
    assert (found.verdict, found.retry_after) == (Verdict.LATER, 7.0)
    assert read_answer(500, {"retry-after": "7"}, b"").verdict is Verdict.FAILED


def test_retry_after() -> None:
    assert retry_after("120") == 120.0
    assert retry_after("99999999999") == LONGEST_RETRY
    assert 50 < retry_after(formatdate(time.time() + 60, usegmt=True)) <= 60
    none = ("", "0", "-1", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "\u0661")
    assert [retry_after(text) for text in none] == [0.0] * len(none)
