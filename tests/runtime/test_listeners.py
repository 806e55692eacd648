"""The doors that the settings ask for, and what an operator is told of them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.auth.authenticator import Anonymous
from gateway.cli.main import main
from gateway.config.settings import Settings
from gateway.runtime.listeners import handler_of, read_certificates, warnings
from gateway.transports import Server, Trusted
from tests.transports import tls_files

RULES = ({"destination": "#", "allow": ["send", "subscribe"]},)
RULELESS = (
    "pages can reach {} from other machines, and there are no rules, so every client may do everything: write "
    "[[rule]] tables, and the gateway refuses all that they do not allow"
)


def settings(**values: object) -> Settings:
    return Settings(**{"tcp": "127.0.0.1:0", "websocket": "127.0.0.1:0", **values})  # type: ignore[arg-type]


def secured(folder: Path, **values: object) -> Settings:
    tls_files.write(folder)
    places = {"tls_certificate": folder / "server.pem", "tls_key": folder / "server.key"}
    return settings(tcp_tls="127.0.0.1:0", websocket_tls="127.0.0.1:0", **places, **values)


@pytest.mark.parametrize(
    ("kind", "transport", "secure", "proxied"),
    [
        ("tcp", "tcp", False, True),
        ("tcp_tls", "tcp", True, True),
        ("websocket", "websocket", False, False),
        ("websocket_tls", "websocket", True, False),
    ],
)
async def test_what_stands_at_the_door(tmp_path: Path, kind: str, transport: str, secure: bool, proxied: bool) -> None:
    chosen = secured(tmp_path, tcp_proxy_protocol=True, trusted_proxies="10.0.0.0/8,unix")
    trusted = Trusted(chosen.trusted_proxies)
    found = handler_of(kind, Server(Anonymous()), chosen, read_certificates(chosen), trusted)
    assert (found.transport, found.certificates is not None, found.proxied) == (transport, secure, proxied)
    assert found.trusted is trusted


@pytest.mark.parametrize(("version", "lowest"), [("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3)])
def test_the_lowest_version_of_tls(tmp_path: Path, version: str, lowest: ssl.TLSVersion) -> None:
    certificates = read_certificates(secured(tmp_path, tls_min_version=version))
    assert certificates is not None
    assert certificates.context("tcp").minimum_version is lowest


LOGIN = {"users_file": "users.txt", "admin_token": "x"}
EVERYWHERE = "127.0.0.1:1,0.0.0.0:2"
WITHOUT_TLS = "0.0.0.0:2 can be reached from other machines without TLS"
OPEN_ADMIN = "clients must log in, but every program on this machine may use the admin API"


class TestWarnings:
    @pytest.mark.parametrize(
        ("values", "sentences"),
        [
            ({}, []),
            ({"tcp": EVERYWHERE, "rule": RULES}, [WITHOUT_TLS]),
            # A trusted proxy in front may do TLS.
            ({"websocket": "0.0.0.0:2", "trusted_proxies": "10.0.0.1", "rule": RULES, **LOGIN}, []),
            # Browsers reach WebSocket addresses, directly or through a proxy.
            ({"websocket": EVERYWHERE, **LOGIN}, [WITHOUT_TLS, RULELESS.format("0.0.0.0:2")]),
            ({"websocket_tls": EVERYWHERE, **LOGIN}, [RULELESS.format("0.0.0.0:2")]),
            ({"websocket": "127.0.0.1:1", "trusted_proxies": "127.0.0.1", **LOGIN}, [RULELESS.format("127.0.0.1:1")]),
            ({"users_file": "users.txt"}, [OPEN_ADMIN]),
            ({"trusted_proxies": "127.0.0.1", "rule": RULES}, ["trusted_proxies is set and no authenticator is"]),
            ({"tcp_proxy_protocol": True}, ["tcp_proxy_protocol is on and trusted_proxies is empty"]),
        ],
    )
    def test_of_settings(self, values: dict[str, object], sentences: list[str]) -> None:
        found = list(warnings(settings(**values), None))
        assert len(found) == len(sentences)
        for sentence, start in zip(found, sentences, strict=True):
            assert sentence.startswith(start)

    def test_of_a_certificate(self, tmp_path: Path) -> None:
        chosen = secured(tmp_path)
        certificates = read_certificates(chosen)
        assert certificates is not None
        assert not list(warnings(chosen, certificates))
        certificates.ends = 0.0
        (sentence,) = warnings(chosen, certificates)
        assert "has expired: it is valid until 1970-01-01 00:00 UTC" in sentence


class TestCheckConfig:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        tls_files.write(tmp_path)
        monkeypatch.setenv("GATEWAY_TCP_TLS", "127.0.0.1:0")
        monkeypatch.setenv("GATEWAY_TLS_CERTIFICATE", "server.pem")

    def test_the_certificate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GATEWAY_TLS_KEY", "server.key")
        result = CliRunner().invoke(main, ["check-config", "--bind"])
        assert result.exit_code == 0, result.output
        assert "The certificate is for gateway.example, 127.0.0.1, and good until " in result.stderr


NODE = {"cluster": "shop", "store": "sqlite:store.db"}
ELSEWHERE = "10.0.0.1:4222,10.0.0.2:4222"


class TestWarningsOfACluster:
    @pytest.mark.parametrize(
        ("values", "sentences"),
        [
            (
                {"cluster_servers": ELSEWHERE},
                ["cluster_servers has no effect without a cluster: set cluster, or leave it out"],
            ),
            ({**NODE, "cluster_servers": "127.0.0.1:1,127.0.0.1:2"}, []),
            (
                {**NODE, "cluster_servers": "127.0.0.1:1"},
                ["cluster_servers names one NATS server, and this node stops with that one: name all of them"],
            ),
            (
                {**NODE, "cluster_replicas": 1, "cluster_replicas_anyway": True},
                ["cluster_replicas is 1, so messages are lost with a NATS server: run three, and set it to 3"],
            ),
            (
                {**NODE, "cluster_servers": ELSEWHERE},
                [
                    "messages go to 10.0.0.1:4222, 10.0.0.2:4222 without TLS: set cluster_ca",
                    "a standby tells its clients 127.0.0.1:0, where other machines cannot connect: set cluster_address",
                ],
            ),
            ({**NODE, "cluster_servers": ELSEWHERE, "cluster_tls": True, "cluster_address": "mq.example.org"}, []),
        ],
    )
    def test_of_settings(self, values: dict[str, object], sentences: list[str]) -> None:
        assert list(warnings(settings(**values), None)) == sentences

    def test_check_config_shows_them(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        found = CliRunner().invoke(main, ["check-config"], env={"GATEWAY_CLUSTER_NODE": "a"})
        assert found.exit_code == 0
        assert "Warning: cluster_node has no effect without a cluster: set cluster, or leave it out\n" in found.stderr
