"""`gateway cluster`: the state of a cluster, a handover, and the store of a single gateway that becomes the cluster's.

It asks the NATS servers of the settings, so it needs no gateway that runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gateway.cluster.servers import Servers
    from gateway.config.settings import Settings


@click.group()
def cluster() -> None:
    """Show a cluster, hand over, or give it the store of a single gateway."""


@cluster.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(as_json: bool) -> None:
    """Show the nodes, and the log.

    Exit status: 0 if there is a primary and a standby, 1 if not, or if the servers do not answer.
    """
    with _servers() as (settings, servers):
        log, directory, snapshots = servers.log(), servers.directory(), servers.snapshots()
        bounds = log.bounds()
        _, primary = directory.primary()
        nodes = directory.nodes()
        newest = next(iter(snapshots.all()), None)
    is_led = primary is not None and bool(primary.node)
    facts: dict[str, object] = {
        "cluster": settings.cluster,
        "primary": primary.node if primary is not None and is_led else None,
        "epoch": None if primary is None else primary.epoch,
        "since": primary.since if primary is not None and is_led else None,
        "reason": primary.reason if primary is not None and is_led else None,
        "log": {"first": bounds.first, "last": bounds.last, "bytes": bounds.nbytes},
        "snapshot": None if newest is None else {"sequence": newest.sequence, "bytes": newest.size},
        "nodes": [
            {
                "node": each.node,
                "role": each.role,
                "address": each.address,
                "version": each.version,
                "lag": max(0, bounds.last - each.sequence),
                "connections": each.load,
            }
            for each in nodes
        ],
    }
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(_lines(facts)))
    roles = [each.role for each in nodes]
    sys.exit(0 if facts["primary"] and "standby" in roles else 1)


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    log, snapshot = facts["log"], facts["snapshot"]
    versions = {each["version"] for each in facts["nodes"]}
    yield f"cluster   {facts['cluster']}" + (f", version {versions.pop()}" if len(versions) == 1 else "")
    yield f"primary   {facts['primary'] or 'none'}" + (f", epoch {facts['epoch']}" if facts["epoch"] else "")
    if facts["since"]:
        yield f"since     {datetime.fromtimestamp(facts['since'], UTC):%Y-%m-%d %H:%M:%S} UTC: {facts['reason']}"
    messages = f"messages {log['first']:,} to {log['last']:,}" if log["last"] >= log["first"] else "no messages"
    yield f"log       {messages}, {log['bytes']:,} bytes"
    if snapshot is None:
        yield "snapshot  none yet"
    else:
        yield f"snapshot  of message {snapshot['sequence']:,}, {snapshot['bytes']:,} bytes"
    yield ""
    if facts["nodes"]:
        yield from _table(facts["nodes"])
    else:
        yield "no node is there"


_NUMBERS = ("lag", "clients")


def _table(nodes: list[dict[str, Any]]) -> Iterator[str]:
    """The nodes, in columns as wide as they need be; with their versions where these differ."""
    differ = len({each["version"] for each in nodes}) > 1
    rows = [("node", "role", *_NUMBERS, *(["version"] * differ), "address")]
    for each in nodes:
        numbers = f"{each['lag']:,}", f"{each['connections']:,}"
        rows.append((each["node"], each["role"], *numbers, *([each["version"]] * differ), each["address"]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(rows[0], row, widths, strict=True)
        yield "  ".join(
            [cell.rjust(wide) if name in _NUMBERS else cell.ljust(wide) for name, cell, wide in cells]
        ).rstrip()


@cluster.command()
@click.argument("node", default="")
def handover(node: str) -> None:
    """Let another node become primary: NODE, or any standby."""
    with _servers() as (settings, servers):
        from gateway.cluster.directory import refuse_handover

        directory = servers.directory()
        _, primary = directory.primary()
        reason = refuse_handover(primary, directory.nodes(), node, f"{node} is no standby of {settings.cluster}")
        if primary is None or reason:
            raise click.ClickException(reason)
        directory.ask_for_handover(node)
        click.echo(f"asked {primary.node} to hand over to {node or 'a standby'}: see `gateway cluster status`")


@cluster.command()
@click.option("--from", "source", required=True, metavar="sqlite:FILE", help="The store of a single gateway.")
def bootstrap(source: str) -> None:
    """Give a new cluster the messages of a single gateway, which must not run.

    The file stays as it is.  Start the nodes with new files behind that.
    """
    kind, _, path = source.partition(":")
    if kind != "sqlite" or not Path(path).is_file():
        raise click.ClickException(f"there is no file {path or source}: write --from sqlite:FILE")
    with _servers() as (settings, servers), tempfile.TemporaryDirectory(prefix="gateway-bootstrap-") as folder:
        from gateway.cluster.replica import copy_store

        servers.check()
        servers.make(settings.cluster_replicas)
        log, snapshots = servers.log(), servers.snapshots()
        if log.bounds().last or snapshots.all():
            raise click.ClickException(f"the cluster {settings.cluster} has messages already: it takes no other store")
        copy = Path(folder, "store.db")
        rows = copy_store(Path(path), copy)
        snapshots.put(copy, 0, 0)
    click.echo(f"the cluster {settings.cluster} begins with {rows:,} messages of {path}; start its nodes now")


@contextmanager
def _servers() -> Iterator[tuple[Settings, Servers]]:
    """The NATS servers of the settings; their errors become one sentence."""
    from gateway.broker.core.ports import StoreError
    from gateway.config.errors import StartError
    from gateway.config.settings import SettingsError, load

    try:
        settings = load()
        if not settings.cluster:
            raise click.ClickException("this gateway is no node of a cluster: the setting cluster names one")
        try:
            from gateway.cluster.nats.faults import NatsUnavailable
            from gateway.cluster.servers import Servers
            from gateway.runtime.cluster import nats_options
        except ImportError as error:
            from gateway.config.errors import not_installed

            raise StartError(not_installed("cluster", error, "cluster")) from None

        try:
            with Servers(partial(nats_options, settings), settings.cluster) as servers:
                yield settings, servers
        except NatsUnavailable as error:
            raise click.ClickException(str(error)) from None
    except (SettingsError, StartError, StoreError) as error:
        raise click.ClickException(str(error)) from None
