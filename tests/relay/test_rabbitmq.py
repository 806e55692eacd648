"""Between a gateway and RabbitMQ, in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client import StompServer
from tests.gateway_process import HOST, GatewayProcess

from .relaying import Reader, relaying, send, url, waiting

pytestmark = pytest.mark.long  # the start of RabbitMQ takes longer than they do

BODIES = [str(number) for number in range(500)]


@pytest.fixture
def there(rabbitmq: StompServer) -> str:
    return f"stomp://guest@{HOST}:{rabbitmq.port}"


def test_to_rabbitmq(
    one: GatewayProcess, source: StompServer, rabbitmq: StompServer, there: str, name: str, tmp_path: Path
) -> None:
    send(source, f"/queue/{name}", BODIES, persistent="true", colour="red")
    words = ("--from", url(one), "--to", there, "--to-vhost", "/", f"/queue/{name}")
    with relaying(tmp_path, *words, STOMP_TO_PASSCODE="guest") as relay:
        reader = Reader(rabbitmq, f"/queue/{name}")
        assert reader.until(500, lambda: relay.log) == BODIES
        assert {headers["colour"] for headers, _ in reader.messages} == {"red"}
        reader.client.disconnect()
    assert waiting(source, f"/queue/{name}") == []


def test_from_rabbitmq(
    one: GatewayProcess, source: StompServer, rabbitmq: StompServer, there: str, name: str, tmp_path: Path
) -> None:
    send(rabbitmq, f"/queue/{name}", BODIES, persistent="true", colour="red")
    words = ("--from", there, "--from-vhost", "/", "--to", url(one), f"/queue/{name}")
    with relaying(tmp_path, *words, STOMP_FROM_PASSCODE="guest") as relay:
        reader = Reader(source, f"/queue/{name}")
        assert reader.until(500, lambda: relay.log) == BODIES
        assert {headers["colour"] for headers, _ in reader.messages} == {"red"}
        reader.client.disconnect()
    left = Reader(rabbitmq, f"/queue/{name}")
    left.read(0.3)
    assert left.messages == []
    left.client.disconnect()
