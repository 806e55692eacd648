"""Logins at real servers: each kind of credentials is taken; wrong ones end in a sentence without any secret."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from gateway.cluster.nats.connection import NatsConnection, NatsOptions
from gateway.cluster.nats.credentials import NatsCredentials
from gateway.cluster.nats.faults import About, NatsRefused
from gateway.cluster.nats.jetstream import JetStream
from tests.cluster.nats.jwts import USER, NKey, Operator
from tests.cluster.servers import PATIENCE, NatsServer, nats_servers

SECRET = "a-secret-of-ours"
WRONG = "another-secret"


def connection(server: NatsServer, credentials: NatsCredentials) -> NatsConnection:
    return NatsConnection(NatsOptions([server.address], credentials=lambda: credentials))


def user(server: NatsServer, credentials: NatsCredentials) -> str:
    """The user that the server takes us for."""
    with closing(connection(server, credentials)) as found:
        return str(json.loads(found.request("$SYS.REQ.USER.INFO").payload)["data"]["user"])


def refusal(server: NatsServer, credentials: NatsCredentials) -> NatsRefused:
    with pytest.raises(NatsRefused) as refused:
        connection(server, credentials).request("$SYS.REQ.USER.INFO")
    assert SECRET not in str(refused.value)
    assert WRONG not in str(refused.value)
    return refused.value


def first_refusal(found: NatsConnection) -> NatsRefused:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            found.request("$SYS.REQ.USER.INFO")
        except NatsRefused as refused:
            return refused
        time.sleep(0.05)
    raise AssertionError("the server does not refuse in time")


def test_user_and_password(tmp_path: Path) -> None:
    settings = f'authorization {{ users: [{{user: gw, password: "{SECRET}"}}] }}'
    with nats_servers(tmp_path, 1, settings) as (server,):
        assert user(server, NatsCredentials("gw", SECRET)) == "gw"
        for wrong in (NatsCredentials("gw", WRONG), NatsCredentials(), NatsCredentials(token=SECRET)):
            error = refusal(server, wrong)
            assert str(error) == f"the NATS server {server.address} refuses the login: Authorization Violation"
            assert error.about is About.LOGIN


def test_token(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1, f'authorization {{ token: "{SECRET}" }}') as (server,):
        with closing(connection(server, NatsCredentials(token=SECRET))) as found:
            assert found.request("$JS.API.INFO").payload
        assert refusal(server, NatsCredentials(token=WRONG)).about is About.LOGIN


def test_nkey(tmp_path: Path) -> None:
    ours, other = NKey.make(USER), NKey.make(USER)
    with nats_servers(tmp_path, 1, f"authorization {{ users: [{{nkey: {ours.public}}}] }}") as (server,):
        assert user(server, NatsCredentials(seed=ours.seed)) == ours.public
        error = refusal(server, NatsCredentials(seed=other.seed))
        assert error.about is About.LOGIN
        assert other.seed not in str(error)


def test_credentials_file(tmp_path: Path) -> None:
    """It is read for each connection, so that a new one counts when the old one has ended."""
    operator, path = Operator(), tmp_path / "user.creds"
    with nats_servers(tmp_path, 1, operator.settings) as (server,):
        path.write_text(operator.credentials("first", seconds=2))
        ours = NatsConnection(NatsOptions([server.address], credentials=lambda: NatsCredentials.of_file(path)))
        assert JetStream(ours).call("INFO")["streams"] == 0
        assert " refuses the login: " in str(first_refusal(ours))
        path.write_text(operator.credentials("second"))
        assert JetStream(ours).call("INFO")["streams"] == 0
        path.write_text(Operator().credentials("of another operator"))
        ours.close()
        with pytest.raises(NatsRefused, match="refuses the login: Authorization Violation"):
            ours.request("$SYS.REQ.USER.INFO")
        path.unlink()
        with pytest.raises(NatsRefused, match=f"{path} cannot be read: No such file"):
            ours.request("$SYS.REQ.USER.INFO")


@pytest.mark.parametrize(
    ("permissions", "subject"),
    [
        ('publish: {deny: ["$JS.API.>"]}', r"Publish to .*JS.API.INFO"),
        ('subscribe: {deny: ["_INBOX.>"]}', "Subscription to ._INBOX"),
    ],
)
def test_a_user_without_permission(tmp_path: Path, permissions: str, subject: str) -> None:
    settings = f"authorization {{ users: [{{user: gw, password: x, permissions: {{{permissions}}}}}] }}"
    with nats_servers(tmp_path, 1, settings) as (server,):
        jets = JetStream(connection(server, NatsCredentials("gw", "x")))
        with pytest.raises(NatsRefused, match=f"does not permit it: Permissions Violation for {subject}") as refused:
            jets.call("INFO")
        assert refused.value.about is About.PERMISSION
