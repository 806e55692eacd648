"""Programs as users of Spring's simple broker write them, unedited, in @stomp/stompjs (spring.mjs)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.driver import Driver
from tests.clients.nginx import start_nginx
from tests.clients.worker import work
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

USERS = [("ada", "engine"), ("bob@example.org", "1234")]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    file = write_users(tmp_path_factory.mktemp("spring") / "users.txt", dict(USERS))
    with start_gateway(users_file=file) as process:
        yield process


@pytest.mark.parametrize("scenario", ["users", "identity", "paths"])
def test_in_node(scenario: str, node: Driver, members: GatewayProcess, name: str) -> None:
    node.run(scenario, file="spring.mjs", url=members.ws_url, version=None, name=name, users=USERS)


def test_in_chromium(chromium: Driver, members: GatewayProcess, name: str) -> None:
    with start_nginx(members.ws_port, members.http_port) as port:
        chromium.run(
            "users",
            file="spring.mjs",
            origin=f"http://{HOST}:{port}/",
            url=f"ws://{HOST}:{port}/ws",
            version=None,
            name=name,
            users=USERS,
        )


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_server_in_stomp_py_writes_to_a_user(version: str, members: GatewayProcess, name: str) -> None:
    """What convertAndSendToUser does, from Python."""
    ada, bob = USERS
    with work(version, members.tcp_port, login=ada) as server, work("1.2", members.tcp_port, login=bob) as user:
        user.subscribe(f"/user/queue/{name}", ack="client-individual")
        server.send(f"/user/{bob[0]}/queue/{name}", "for bob")
        frame = user.message()
        assert frame.body == b"for bob"
        user.nack(frame)
        again = user.message()
        assert (again.body, again.headers["redelivered"]) == (b"for bob", "true")
        user.confirmed(user.ack, again)
