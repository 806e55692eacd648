"""`gateway cluster`: the state of a cluster, a handover, and the store of a single gateway that becomes the cluster's.

It asks the NATS servers of the settings, so it needs no gateway that runs.  `cluster_status` has what `status` tells.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
    """Show the NATS servers, the nodes, the log, and what is wrong.

    It asks each of them by itself, so it also tells what is left in an outage.

    Exit status: 0 if there is a primary and a standby, 1 if not, or if the servers do not answer.
    """
    with _settings() as settings:
        from gateway.cli.cluster_status import facts_of, lines_of

        facts = facts_of(settings)
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(lines_of(facts, time.time())))
    roles = [each["role"] for each in facts["nodes"]]
    sys.exit(0 if facts["primary"] and "standby" in roles else 1)


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
        from gateway.cluster.bootstrap import HasMessages
        from gateway.cluster.bootstrap import bootstrap as give

        servers.check()
        servers.make(settings.cluster_replicas)
        try:
            rows = give(servers.log(), servers.snapshots(), Path(path), Path(folder, "store.db"))
        except HasMessages:
            sentence = f"the cluster {settings.cluster} has messages already: it takes no other store"
            raise click.ClickException(sentence) from None
    click.echo(f"the cluster {settings.cluster} begins with {rows:,} messages of {path}; start its nodes now")


@contextmanager
def _servers() -> Iterator[tuple[Settings, Servers]]:
    """The NATS servers of the settings; their errors become one sentence."""
    with _settings() as settings:
        from gateway.cluster.log import LogUnavailable
        from gateway.cluster.nats.faults import NatsUnavailable
        from gateway.cluster.servers import Servers
        from gateway.runtime.cluster import nats_options

        try:
            with Servers(partial(nats_options, settings), settings.cluster) as servers:
                yield settings, servers
        except (NatsUnavailable, LogUnavailable) as error:
            # Without a majority, a server that is up does not answer either.
            is_away = isinstance(error.__context__ or error, NatsUnavailable)
            hint = "; `gateway cluster status` asks each NATS server" if is_away else ""
            raise click.ClickException(f"{error}{hint}") from None


@contextmanager
def _settings() -> Iterator[Settings]:
    """The settings of a node; their errors, and those of the store, become one sentence."""
    from gateway.broker.core.ports import StoreError
    from gateway.config.errors import StartError, not_installed
    from gateway.config.settings import SettingsError, load

    try:
        settings = load()
        if not settings.cluster:
            raise click.ClickException("this gateway is no node of a cluster: the setting cluster names one")
        try:
            import gateway.runtime.cluster  # noqa: F401
        except ImportError as error:
            raise StartError(not_installed("cluster", error, "cluster")) from None
        yield settings
    except (SettingsError, StartError, StoreError) as error:
        raise click.ClickException(str(error)) from None
