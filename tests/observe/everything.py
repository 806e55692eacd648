"""A gateway with everything that has metrics, and what a scraper gets of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.admin.gateway_api import metrics_of
from gateway.auth.authenticator import Anonymous
from gateway.cluster.log import Bounds
from gateway.config.settings import Settings
from gateway.observe.metrics import Metrics
from gateway.runtime.edges import Edge
from gateway.runtime.gateway import Gateway, open_gateway
from tests.transports import tls_files

FREE = "127.0.0.1:0"

FUNCTIONS = """\
from gateway.handlers import Handlers

app = Handlers()


@app.send("/app/work")
async def work(request):
    pass


@app.send("/app/fail")
async def fail(request):
    raise ZeroDivisionError
"""


class Carrier:
    """A connection that must not be touched."""

    def end(self, error: Exception) -> None:
        raise AssertionError(error)

    def flush(self) -> None:
        raise AssertionError("nothing is written")

    def renew(self, renewal: object) -> None:
        raise AssertionError(renewal)


def a_node() -> Any:
    """The primary of a cluster, without the cluster."""
    return SimpleNamespace(
        role="primary",
        options=SimpleNamespace(name="a", cluster="shop"),
        primary=SimpleNamespace(node="a", address="127.0.0.1:1", epoch=3),
        nodes=[
            SimpleNamespace(node=name, role=role, sequence=7_000, failure="")
            for name, role in (("a", "primary"), ("b", "standby"))
        ],
        bounds=Bounds(1, 7_000, 2_000),
        room=None,
        full="",
        snapshots=SimpleNamespace(newest=None, due=1_000),
        changed=2,
        failure="",
        is_drained=False,
        unavailable="",
        lag=0,
        term=None,
        took=None,
        edges=None,
    )


@asynccontextmanager
async def everything(
    folder: Path, monkeypatch: pytest.MonkeyPatch, shown: Sequence[str] = ("/queue/orders",)
) -> AsyncIterator[tuple[Gateway, Metrics]]:
    """It runs in that folder.

    Args:
        shown: the setting metrics_destinations.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (folder / "functions_of_everything.py").write_text(FUNCTIONS)
    tls_files.write(folder)
    settings = Settings(
        tcp=[FREE],
        websocket=[FREE],
        tcp_tls=[FREE],
        tls_certificate=folder / "server.pem",
        tls_key=folder / "server.key",
        close_linger=0.2,
        store=f"sqlite:{folder}/store.db",
        journal=folder / "journal",
        handlers="functions_of_everything:app",
        trace_endpoint="http://127.0.0.1:9/v1/traces",
        trace_ratio=0.0,
        metrics_destinations=list(shown),
    )
    async with open_gateway(settings, authenticator=Anonymous()) as gateway:
        gateway.node = a_node()
        gateway.edges = cast(Any, SimpleNamespace(all=[Edge("1")], close=lambda **_: None, reload=lambda _: None))
        try:
            yield gateway, metrics_of(gateway, settings)
        finally:
            gateway.edges = None  # there is no process to drain


async def scraped(metrics: Metrics) -> dict[str, Metric]:
    content, _ = await metrics.scrape("")
    return {family.name: family for family in text_string_to_metric_families(content.decode())}


def labels_by_name(families: dict[str, Metric]) -> dict[str, set[str]]:
    """The name of each sample, and the labels that such samples have."""
    found: dict[str, set[str]] = {}
    for family in families.values():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found
