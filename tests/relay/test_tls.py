"""Over TLS, with an authority of the tests' own: messages arrive, either way; whom nobody vouches for gets none."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.client import StompServer
from tests.demanding import demanding
from tests.gateway_process import HOST, GatewayProcess, free_ports
from tests.logged_command import eventually
from tests.transports import tls_files

from .relaying import Listener, Reader, relaying, running, send, url


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the authority that vouches for the servers."""
    path = tmp_path_factory.mktemp("trusted") / "authority.pem"
    tls_files.authority().cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, trusted: Path) -> Iterator[StompServer]:
    """A gateway with TLS, as a client finds it."""
    files = tls_files.write(tmp_path_factory.mktemp("papers"))
    (port,) = free_ports(1)
    values = {"tcp_tls": f"{HOST}:{port}", "tls_certificate": files.certificate, "tls_key": files.key}
    with running(tmp_path_factory.mktemp("secured") / "gateway", "", **values):
        yield StompServer(HOST, port, tls=True, ca=str(trusted))


class Door(Listener):
    """Shows a certificate to whoever comes, and hangs up behind the handshake.

    Attributes:
        seen: when somebody came, by the clock of `time.monotonic`.
    """

    def __init__(self) -> None:
        self.seen: list[float] = []
        super().__init__()

    def meet(self, connection: socket.socket) -> None:
        self.seen.append(time.monotonic())
        with suppress(OSError):
            tls_files.of_server().wrap_socket(connection, server_side=True).close()


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.close()


def address(server: StompServer) -> str:
    return f"stomps://{server.host}:{server.port}"


def test_an_authority_that_does_not_vouch_for_the_target(
    one: GatewayProcess, source: StompServer, secured: StompServer, trusted: Path, name: str, tmp_path: Path
) -> None:
    """It is told once, and tried again: as soon as the file has the right one, messages arrive."""
    file = tmp_path / "authority.pem"
    tls_files.stranger().cert_pem.write_to_path(str(file))
    send(source, f"/queue/{name}", ["1"])
    with relaying(
        tmp_path, "--from", url(one), "--to", address(secured), "--to-ca", file.name, f"/queue/{name}"
    ) as relay:
        (told,) = relay.wait_for("the target is away")
        place = f"cannot connect to {HOST}:{secured.port}"
        assert told["reason"].startswith(f"{place}: authority.pem does not vouch for its certificate: ")
        assert "_ssl.c" not in told["reason"]
        file.write_bytes(trusted.read_bytes())
        reader = Reader(secured, f"/queue/{name}")
        assert reader.until(1, lambda: relay.log) == ["1"]
        reader.client.disconnect()
        relay.wait_for("the target works again")
    assert len(relay.events("the target is away")) == 1


def test_the_pauses_grow(one: GatewayProcess, door: Door, name: str, tmp_path: Path) -> None:
    """Whom nobody vouches for is not asked again and again without a pause."""
    file = tmp_path / "authority.pem"
    tls_files.stranger().cert_pem.write_to_path(str(file))
    target = f"stomps://{HOST}:{door.port}"
    with relaying(tmp_path, "--from", url(one), "--to", target, "--to-ca", str(file), f"/queue/{name}") as relay:
        eventually(lambda: len(door.seen) >= 5, lambda: relay.log)
        assert len(relay.events("the target is away")) == 1
    pauses = [later - earlier for earlier, later in pairwise(door.seen[:5])]
    assert all(pause >= 0.05 * 2**number for number, pause in enumerate(pauses)), pauses


def test_servers_that_demand_a_certificate(one: GatewayProcess, source: StompServer, name: str, tmp_path: Path) -> None:
    """There by the command line, back by a file."""
    with demanding(tmp_path) as there:
        files = f'from_ca = "{there.ca}"\nfrom_cert = "{there.cert}"\nfrom_key = "{there.key}"\n'
        table = f'[[relay]]\nfrom = "{there.url}"\n{files}to = "{url(one)}"\ndestinations = ["/queue/{name}.back"]\n'
        (tmp_path / "relay.toml").write_text(table)
        shown = ("--to-ca", str(there.ca), "--to-cert", str(there.cert), "--to-key", str(there.key))
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
        ends = ("--from", url(one), "--to", there.url)
        with (
            relaying(tmp_path / "a", *ends, *shown, f"/queue/{name}.there") as relay,
            relaying(tmp_path / "b", "--config", str(tmp_path / "relay.toml")) as back,
        ):
            send(source, f"/queue/{name}.there", ["1"])
            send(there.server, f"/queue/{name}.back", ["2"])
            for where, destination, body, each in (
                (there.server, f"/queue/{name}.there", "1", relay),
                (source, f"/queue/{name}.back", "2", back),
            ):
                reader = Reader(where, destination)
                assert reader.until(1, lambda each=each: each.log) == [body]  # type: ignore[misc]
                reader.client.disconnect()
        with relaying(tmp_path, *ends, "--to-ca", str(there.ca), f"/queue/{name}") as relay:
            (told,) = relay.wait_for("the target is away")
        place = f"cannot connect to {HOST}:{there.port}"
        assert told["reason"] == f"{place}: it demands a client certificate, and none was shown (cert, key)"
