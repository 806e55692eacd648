"""A node's start: what the NATS servers refuse ends it at once, in one sentence that names the setting."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from gateway.cluster.log import NoLog
from gateway.cluster.nats.jetstream import JetStream
from gateway.cluster.replica import remove
from gateway.cluster.servers import Servers
from gateway.config.errors import StartError
from gateway.config.settings import Settings
from gateway.runtime import cluster
from gateway.runtime.cluster import nats_options, open_node
from tests.cluster.nats.scripted import GOOD, Script, greet, read_until, serving
from tests.cluster.servers import NatsServer, nats_servers
from tests.gateway_process import free_ports
from tests.transports.tls_files import write

PATIENCE = 30

ACCOUNTS = """
accounts {
  GW {
    jetstream: enabled
    users: [
      {user: gw, password: secret}
      {user: other, password: secret, permissions: {publish: {deny: ["$JS.API.STREAM.CREATE.>"]}}}
    ]
  }
  NONE { users: [{user: none, password: secret}] }
}
"""


@pytest.fixture(autouse=True)
def _a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_servers(tmp_path_factory.mktemp("nats"), 1, ACCOUNTS) as (server,):
        yield server


def settings(folder: Path, *servers: object, **values: Any) -> Settings:
    return Settings(
        cluster_node="n",
        cluster_servers=[str(each) for each in servers],
        store=f"sqlite:{folder / 'copy.db'}",
        **{"cluster": "a", "cluster_replicas": 1, "cluster_replicas_anyway": True, **values},
    )


async def refusal(chosen: Settings) -> str:
    """Why the node does not start: at once, long before the patience with servers that start is over."""
    with trio.fail_after(cluster.START_PATIENCE / 3), pytest.raises(StartError) as error:
        async with open_node(chosen):
            pass
    said = str(error.value)
    assert "secret" not in said
    assert "\n" not in said
    return said


USER = {"cluster_user": "gw", "cluster_password": "secret"}


async def test_starts(tmp_path: Path, nats: NatsServer) -> None:
    for _ in range(2):
        with trio.fail_after(30):
            chosen = settings(tmp_path, nats.address, **USER, cluster_snapshot_after="1GiB")
            async with open_node(chosen) as node:
                assert node.options.name == "n"
                assert node.snapshots.due == 1 << 30


def streams(chosen: Settings) -> Servers:
    return Servers(partial(nats_options, chosen), chosen.cluster)


async def commit(chosen: Settings) -> None:
    """Let a node be primary, and end in order: its epoch is in the log."""
    async with open_node(chosen) as node:
        await node.end(await node.follow())


@pytest.mark.parametrize("gone", [["GW_{}"], ["GW_{}", "KV_GW_{}"]], ids=["log", "log and directory"])
@pytest.mark.parametrize("kept", [True, False], ids=["copy", "no copy"])
async def test_a_lost_log_is_not_made_anew(
    tmp_path: Path, nats: NatsServer, monkeypatch: pytest.MonkeyPatch, gone: list[str], *, kept: bool
) -> None:
    chosen = settings(tmp_path, nats.address, **USER, cluster=f"lost{kept:d}{len(gone)}")
    with streams(chosen) as servers, trio.fail_after(PATIENCE):
        await commit(chosen)
        jets = JetStream(servers.log()._jets.connection)
        for each in gone:
            jets.call(f"STREAM.DELETE.{each.format(chosen.cluster)}")
        if not kept:
            remove(tmp_path / "copy.db")
        monkeypatch.setattr(cluster, "START_PATIENCE", 0.5)
        if not kept and len(gone) > 1:
            await commit(chosen)  # nothing is left that knows of it
            return
        with pytest.raises(StartError, match=f"the log of the cluster {chosen.cluster} is empty or gone.* A lost log"):
            await commit(chosen)
        with pytest.raises(NoLog):
            servers.log().bounds()
        servers.log().make(1)  # by something else
        if kept:
            with pytest.raises(StartError, match="this node's copy has it up to message 1:"):
                await commit(chosen)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("journal", "gateway.toml", "the journal cannot be in .*: Not a directory"),
        ("handlers", "no_such_module:handlers", "no_such_module"),
        ("trace_endpoint", "http://127.0.0.1:4318/v1/traces", "is not installed"),
    ],
)
async def test_what_only_a_primary_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, reason: str
) -> None:
    """Without it, the only standby would take over and end."""
    if setting == "journal":
        value = str(tmp_path / value)
        await trio.Path(value).write_text("")
    monkeypatch.setitem(sys.modules, "gateway.observe.spans", None)
    said = await refusal(settings(tmp_path, "127.0.0.1:1", **{setting: value}))
    assert said.startswith(f"{setting} (GATEWAY_{setting.upper()})")
    assert re.search(reason, said)


NO_PERMISSION = 'does not permit it: Permissions Violation for Publish to "$JS.API.STREAM.CREATE.GW_a"'


@pytest.mark.parametrize(
    ("values", "setting", "reason"),
    [
        (USER | {"cluster_user": "x"}, "cluster_user", "refuses the login: Authorization Violation"),
        ({}, "cluster_user", "refuses the login: Authorization Violation"),
        ({"cluster_token": "secret"}, "cluster_token", "refuses the login: Authorization Violation"),
        (USER | {"cluster_tls": True}, "cluster_tls", "offers no TLS"),
        (
            USER | {"cluster_user": "none"},
            "cluster_user",
            "refuses JetStream to this user: JetStream not enabled for account",
        ),
        (USER | {"cluster_user": "other"}, "cluster_user", NO_PERMISSION),
        (USER | {"cluster_replicas": 3}, "cluster_replicas", "is alone: it cannot hold 3 replicas"),
    ],
    ids=["password", "none", "token", "tls", "account", "permission", "replicas"],
)
async def test_servers_that_refuse(
    tmp_path: Path, nats: NatsServer, values: dict[str, Any], setting: str, reason: str
) -> None:
    said = await refusal(settings(tmp_path, nats.address, **values))
    assert said.startswith(f"{setting} (GATEWAY_{setting.upper()}) cannot be used: the NATS server ")
    assert str(nats.address) in said
    assert said.endswith(f" {reason}")


async def test_a_server_that_is_too_old(tmp_path: Path) -> None:
    def script(connection: Any) -> None:
        greet(connection, GOOD | {"version": "2.9.10"})

    with serving(script) as address:
        said = await refusal(settings(tmp_path, address))
    assert said == (
        "cluster_servers (GATEWAY_CLUSTER_SERVERS) cannot be used: "
        f"the NATS server {address} has version 2.9.10: the cluster needs 2.11 or newer"
    )


async def test_a_server_without_jetstream(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1, "jetstream: disabled") as (server,):
        said = await refusal(settings(tmp_path, server.address))
    assert said.startswith(
        "cluster_servers (GATEWAY_CLUSTER_SERVERS) cannot be used: JetStream is off at the NATS server"
    )


def silent(connection: Any) -> None:
    read_until(connection, b"never")


@pytest.mark.parametrize("script", [silent, None])
async def test_servers_that_do_not_answer(
    tmp_path: Path, script: Script | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node waits for them, and says so now and then; an end is not held up by a call that is under way."""
    monkeypatch.setattr(cluster, "START_PATIENCE", 0.5)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
        serving(silent) as address,
        structlog.testing.capture_logs() as logs,
    ):
        manager.bind(str(tmp_path / "manager"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "manager"))
        server = address if script else f"127.0.0.1:{free_ports(1)[0]}"
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_once_told, logs, nursery.cancel_scope)
                async with open_node(settings(tmp_path, server)):
                    raise AssertionError("it has started")
        assert manager.recv(100) == b"STATUS=waiting for the NATS servers\nEXTEND_TIMEOUT_USEC=60000000"
    reason = "does not answer" if script else "cannot be reached: Connection refused"
    assert [(each["event"], each["reason"]) for each in logs] == [
        ("waiting for the NATS servers", f"the NATS server {server} {reason}")
    ]


async def _once_told(logs: Sequence[object], scope: trio.CancelScope) -> None:
    """Cancel what waits as soon as there is a line in the log."""
    while not logs:  # noqa: ASYNC110 - a thread may write it
        await trio.sleep(0.02)
    scope.cancel()


async def test_servers_that_start_meanwhile(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1) as (server,):
        server.kill()
        async with trio.open_nursery() as nursery:

            async def start() -> None:
                await trio.sleep(1)
                server.start()

            nursery.start_soon(start)
            with trio.fail_after(30):
                async with open_node(settings(tmp_path, server.address)):
                    pass


async def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    missing, text = tmp_path / "missing", tmp_path / "text"
    text.write_text("secret")
    for name, path, reason in (
        ("cluster_credentials", missing, " cannot be read: No such file or directory"),
        ("cluster_credentials", text, ": the seed of the NKey is not in base32"),
        ("cluster_ca", missing, " cannot be read: No such file or directory"),
        ("cluster_ca", text, " cannot be read: no certificate or crl found"),
    ):
        said = await refusal(settings(tmp_path, "127.0.0.1:1", **{name: path}))
        assert said == f"{name} (GATEWAY_{name.upper()}) cannot be used: {path}{reason}"


async def test_certificates_of_both(tmp_path: Path) -> None:
    files = write(tmp_path)
    assert files.key is not None
    assert files.client_ca is not None
    ours = f'cert_file: "{files.certificate}", key_file: "{files.key}"'
    tls = f'tls {{ {ours}, ca_file: "{files.client_ca}", verify: true }}'
    own = {"cluster_certificate": files.certificate, "cluster_key": files.key}
    with nats_servers(tmp_path, 1, tls) as (server,):
        with trio.fail_after(30):
            async with open_node(settings(tmp_path, server.address, cluster_ca=files.client_ca, **own)):
                pass
        said = await refusal(settings(tmp_path, server.address, cluster_ca=files.client_ca))
        assert said.startswith("cluster_certificate (GATEWAY_CLUSTER_CERTIFICATE) cannot be used: the NATS server")
        assert said.endswith("demands a certificate of this client")
        said = await refusal(settings(tmp_path, server.address, cluster_tls=True, **own))
        assert said.startswith("cluster_tls (GATEWAY_CLUSTER_TLS) cannot be used: the NATS server")
        assert "does not trust" in said
