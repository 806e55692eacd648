"""The server that a job sends to, and what goes wrong there in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.auth.passwords import hash_passcode
from gateway.client import StompServer
from gateway.pipeline.broker_url import PASSCODE, BrokerUrl
from gateway.pipeline.errors import JobFailure, UsageFailure
from tests.gateway_process import HOST, GatewayProcess, start_gateway


@pytest.mark.parametrize(
    ("url", "broker", "shown"),
    [
        ("stomp://there", BrokerUrl(StompServer("there", 61_613)), "stomp://there:61613"),
        ("stomp://anna@there:7", BrokerUrl(StompServer("there", 7, login="anna")), "stomp://there:7"),
        (
            "stomps://a%40b@There/",
            BrokerUrl(StompServer("there", 61_613, login="a@b", tls=True)),
            "stomps://there:61613",
        ),
        ("stomp://[::1]:7/topic/x.y", BrokerUrl(StompServer("::1", 7), "/topic/x.y"), "stomp://[::1]:7"),
    ],
)
def test_urls(url: str, broker: BrokerUrl, shown: str) -> None:
    assert BrokerUrl.of(url) == broker
    assert str(broker) == shown


@pytest.mark.parametrize("url", ["", "there:61613", "http://there", "stomp://", "stomp://there:port", "stomp://h?x=1"])
def test_urls_without_a_server(url: str) -> None:
    with pytest.raises(UsageFailure, match="names no STOMP server: write stomp://user@host:port"):
        BrokerUrl.of(url)
    with pytest.raises(UsageFailure, match="put it into GATEWAY_PIPELINE_PASSCODE") as caught:
        BrokerUrl.of("stomp://anna:secret@there")
    assert "secret" not in str(caught.value)


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSCODE, raising=False)
    told = {"host": "there", "port": "7", "ssl": "true", "login": "anna"}
    assert BrokerUrl.of("stomps://anna@there:7").options() == told
    monkeypatch.setenv(PASSCODE, "secret")
    assert BrokerUrl.of("stomps://anna@there:7").options() == told | {"passcodeEnv": PASSCODE}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GatewayProcess]:
    (tmp_path / "users.txt").write_text(f"anna:{hash_passcode('secret')}\n")
    with start_gateway(users_file=tmp_path / "users.txt") as process:
        yield process


def test_login(guarded: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerUrl.of(f"stomp://anna@{HOST}:{guarded.tcp_port}")
    monkeypatch.setenv(PASSCODE, "secret")
    assert broker.check().startswith("stomp-gateway")
    monkeypatch.setenv(PASSCODE, "wrong")
    with pytest.raises(JobFailure) as caught:
        broker.check()
    assert str(caught.value).startswith(f"{HOST}:{guarded.tcp_port} says: ")
    assert "\n" not in str(caught.value)
