"""The doors that the settings ask for, and what an operator is told of them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.auth.authenticator import Anonymous
from gateway.cli.main import main
from gateway.config.settings import Settings
from gateway.runtime import file_permissions
from gateway.runtime.listeners import addresses_of, handler_of, read_certificates, warnings
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


def test_kinds() -> None:
    assert list(addresses_of(settings(tcp=[]))) == [("tcp", []), ("websocket", ["127.0.0.1:0"])]
    found = addresses_of(settings(websocket_tls="127.0.0.1:1", tls_certificate="x"))
    assert [kind for kind, _ in found] == ["tcp", "websocket", "websocket_tls"]


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


class TestWarnings:
    def test_nothing_to_say(self, tmp_path: Path) -> None:
        chosen = secured(tmp_path)
        assert not list(warnings(chosen, read_certificates(chosen)))

    @pytest.mark.parametrize("kind", ["tcp", "websocket"])
    def test_the_world_without_tls(self, kind: str) -> None:
        (sentence,) = warnings(settings(**{kind: "127.0.0.1:1,0.0.0.0:2"}, rule=RULES), None)
        assert sentence.startswith("0.0.0.0:2 can be reached from other machines without TLS")
        assert "tcp_tls" in sentence

    def test_a_proxy_may_have_it(self) -> None:
        chosen = settings(
            websocket="0.0.0.0:2", trusted_proxies="10.0.0.1", users_file="users.txt", admin_token="x", rule=RULES
        )
        assert not list(warnings(chosen, None))

    @pytest.mark.parametrize("kind", ["websocket", "websocket_tls"])
    def test_pages_of_elsewhere_and_no_rules(self, kind: str) -> None:
        everywhere = {kind: "127.0.0.1:1,0.0.0.0:2", "users_file": "users.txt", "admin_token": "x"}
        assert RULELESS.format("0.0.0.0:2") in list(warnings(settings(**everywhere), None))
        assert not any("no rules" in each for each in warnings(settings(**everywhere, rule=RULES), None))

    @pytest.mark.parametrize("address", ["127.0.0.1:1", "unix:/ws.sock"])
    def test_they_may_come_through_a_proxy(self, address: str) -> None:
        chosen = {"websocket": address, "users_file": "users.txt", "admin_token": "x"}
        assert not list(warnings(settings(**chosen), None))
        (sentence,) = warnings(settings(**chosen, trusted_proxies="127.0.0.1,unix"), None)
        assert sentence == RULELESS.format(address)

    def test_workers_of_elsewhere_are_no_pages(self) -> None:
        chosen = settings(tcp="0.0.0.0:2", users_file="users.txt", admin_token="x")
        assert not any("no rules" in each for each in warnings(chosen, None))

    def test_programs_of_this_machine(self) -> None:
        (sentence,) = warnings(settings(users_file="users.txt"), None)
        assert "every program on this machine may use the admin API" in sentence
        assert sentence.endswith(": set admin_token (GATEWAY_ADMIN_TOKEN), or admin_groups")
        for ways in ({"admin_token": "x"}, {"admin_groups": "ops"}):
            assert not list(warnings(settings(users_file="users.txt", **ways), None))

    def test_a_secret_within_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_permissions, "warnings", lambda _: ["somebody can read it"])
        assert list(warnings(settings(), None)) == ["somebody can read it"]

    def test_a_proxy_and_nobody_who_asks_for_a_login(self) -> None:
        (sentence,) = warnings(settings(trusted_proxies="127.0.0.1", rule=RULES), None)
        assert sentence.startswith("trusted_proxies is set and no authenticator is")
        assert "GATEWAY_USERS_FILE" in sentence

    @pytest.mark.parametrize("transport", ["tcp", "websocket"])
    def test_a_door_that_nobody_can_pass(self, transport: str) -> None:
        (sentence,) = warnings(settings(**{f"{transport}_proxy_protocol": True}), None)
        assert sentence.startswith(f"{transport}_proxy_protocol is on and trusted_proxies is empty")

    def test_a_certificate_that_has_expired(self, tmp_path: Path) -> None:
        chosen = secured(tmp_path)
        certificates = read_certificates(chosen)
        assert certificates is not None
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

    def test_one_that_cannot_be_used(self) -> None:
        result = CliRunner().invoke(main, ["check-config"])
        assert result.exit_code == 1
        assert result.stderr == (
            "Error: tls_certificate (GATEWAY_TLS_CERTIFICATE) cannot be used: server.pem has no private key in PEM; "
            "tls_key names the file of the key\n"
        )
