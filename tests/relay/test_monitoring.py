"""What a relay says of itself: to whoever asks, and to a service manager."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.client import StompServer
from gateway.config.values import Address
from gateway.process import pages
from gateway.relay import monitoring as module
from gateway.relay.link import ServerLink
from gateway.relay.monitoring import serving
from gateway.relay.pump import Pump
from gateway.relay.settings import make
from tests.deploy.manager import manager
from tests.gateway_process import HOST, free_ports
from tests.logged_command import eventually

from .relaying import Pair, Reader, Relay, relaying, send, url

PAGE = Path(__file__).parents[2] / "docs" / "relay.md"


def ask(port: int, path: str, method: str = "GET", host: str = HOST, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def samples(port: int) -> dict[tuple[str, str], float]:
    """What /metrics has of a relay: name, and its last label's value -> number."""
    status, text = ask(port, "/metrics")
    assert status == 200
    every = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return {
        (each.name, each.labels.get("route") or each.labels.get("end", "")): each.value
        for each in every
        if each.name.startswith("gateway_relay_") and not each.name.endswith("_created")
    }


def is_ready(port: int) -> bool:
    """Whether it answers already, and both servers are there."""
    with suppress(OSError):
        return ask(port, "/readyz")[0] == 200
    return False


class TestRelay:
    def test_while_all_is_well(self, pair: Pair) -> None:
        (port,) = free_ports(1)
        first, second = f"/queue/{pair.name}.1", f"/queue/{pair.name}.2"
        send(pair.source, first, ["1", "2", "x" * 1025])  # more than the target takes
        send(pair.source, second, ["3"])
        words = (*pair.ends, "--http", f"{HOST}:{port}", first, second)
        with relaying(pair.folder, *words) as relay:
            eventually(lambda: is_ready(port), lambda: relay.log)
            assert ask(port, "/healthz") == (200, '{"status": "alive"}\n')
            relay.wait_for("a message is refused")
            reader = Reader(pair.target, first)
            assert reader.until(2, lambda: relay.log) == ["1", "2"]
            reader.client.disconnect()
            eventually(lambda: samples(port)["gateway_relay_in_flight", ""] == 0)
            eventually(lambda: samples(port)["gateway_relay_messages_total", second] == 1)
            found = samples(port)
        assert found["gateway_relay_messages_total", first] == 2
        assert found["gateway_relay_bytes_total", first] > 2
        assert found["gateway_relay_messages_refused_total", first] == 1
        assert found["gateway_relay_messages_looped_total", first] == 0
        assert 0 <= found["gateway_relay_idle_seconds", ""] < 60
        assert found["gateway_relay_connected", "source"] == 1
        assert found["gateway_relay_reconnects_total", "source"] == 0
        assert found["gateway_relay_reconnects_total", "target"] >= 1  # each ERROR ends a connection
        page = PAGE.read_text()
        assert [each for each, _ in found if f"`{each}`" not in page] == []

    def test_while_one_is_away(self, pair: Pair) -> None:
        """By a file with two tables, which have one of the servers in common."""
        port, nobody = free_ports(2)
        table = '[[relay]]\nfrom = "{}"\nto = "{}"\ndestinations = ["/queue/{}"]\n'
        there, back = (url(pair.one), f"stomp://{HOST}:{nobody}"), (url(pair.two), url(pair.one))
        tables = [table.format(*ends, pair.name) for ends in (there, back)]
        (pair.folder / "relay.toml").write_text(f'http = "{HOST}:{port}"\n{"".join(tables)}')
        with relaying(pair.folder, "--config", "relay.toml") as relay:
            relay.wait_for("the target is away")
            status, said = ask(port, "/readyz")
            assert status == 503
            told = json.loads(said)
            assert told["status"] == "not ready"
            assert f"the target {HOST}:{nobody} is away: cannot connect to {HOST}:{nobody}: " in told["error"]
            assert ask(port, "/healthz")[0] == 200, "starting it again would mend nothing"
            eventually(lambda: samples(port)["gateway_relay_connected", "source"] == 1)
            text = ask(port, "/metrics")[1]
        assert f'gateway_relay_connected{{end="target",source="{HOST}:{pair.one.tcp_port}",table="1"' in text
        assert f'gateway_relay_in_flight{{source="{HOST}:{pair.two.tcp_port}",table="2"' in text
        assert "gateway_relay_idle_seconds{" not in text, "there was no message"

    def test_a_port_that_is_taken(self, pair: Pair) -> None:
        taken = f"{HOST}:{pair.one.http_port}"
        relay = Relay(pair.folder, *pair.ends, "--http", taken, f"/queue/{pair.name}")
        assert relay.end() == 1
        assert relay.log.splitlines()[-1] == f"Error: cannot listen on {taken}: address already in use; change http"

    def test_what_a_service_manager_hears(self, pair: Pair) -> None:
        with manager(pair.folder) as hearing:
            variables = {"NOTIFY_SOCKET": hearing.place, "WATCHDOG_USEC": "100000"}
            with relaying(pair.folder, *pair.ends, f"/queue/{pair.name}", **variables):
                assert hearing.heard()["READY"] == "1"
                for _ in range(3):
                    assert hearing.next() == {"WATCHDOG": "1"}
            assert hearing.heard()["STOPPING"] == "1"


def test_the_unit_listens_to_that() -> None:
    unit = (PAGE.parents[1] / "deploy" / "stomp-gateway-relay.service").read_text().splitlines()
    assert "Type=notify" in unit
    (seconds,) = [float(line.partition("=")[2]) for line in unit if line.startswith("WatchdogSec=")]
    assert seconds > module.STILL, "one call to a server that takes long is no reason to end it"


@pytest.fixture
def pump() -> Pump:
    """One that nobody runs."""
    return Pump(make(StompServer("one"), StompServer("two"), ["/queue/a"]), threading.Event())


@pytest.fixture
def port(pump: Pump) -> Iterator[int]:
    (port,) = free_ports(1)
    with serving(Address(HOST, port), [pump.status]):
        yield port


class TestPages:
    def test_a_thread_that_stands_still(self, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
        assert ask(port, "/healthz")[0] == 200
        monkeypatch.setattr(module, "STILL", -1.0)
        status, said = ask(port, "/healthz?verbose")
        assert status == 503
        assert json.loads(said)["error"].startswith("the relay from one:61613 to two:61613 has stood still for 0 s")

    def test_both_servers_take_long_to_reach(self, pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name server that does not answer is no reason to start the relay again."""
        now = 1_000.0
        stuck: list[float] = []

        def open_slowly(_link: ServerLink, _prepare: object) -> None:
            nonlocal now
            now += 40.0
            stuck.append(pump.status.stuck())

        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
        monkeypatch.setattr(ServerLink, "open", open_slowly)
        pump.status.turns()
        pump._step()
        assert stuck == [0.0, 0.0]

    def test_who_says_a_little_for_ever(self, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sixteen of those would keep everybody else out."""
        monkeypatch.setattr(pages, "ANSWER_TIMEOUT", 0.5)
        with socket.create_connection((HOST, port), timeout=0.1) as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
            eventually(lambda: has_gone(slow))


def has_gone(slow: socket.socket) -> bool:
    """Whether the connection has ended, as one finds out who sends an octet."""
    try:
        slow.sendall(b"x")
        return slow.recv(100) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def is_alive(port: int) -> bool:
    """Whether it has room to say so."""
    with suppress(OSError):
        return ask(port, "/healthz")[0] == 200
    return False
