"""Cluster of two gateways on one NATS server, for what stands in front of it and upgrades it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.servers import nats_servers
from tests.gateway_process import HOST, GatewayProcess

PATIENCE = 30.0


@dataclass(frozen=True)
class RunningCluster:
    """Nodes that run.  `variables`: the settings that `gateway cluster` needs, as variables of the environment."""

    nodes: dict[str, GatewayProcess]
    variables: dict[str, str]

    def status(self) -> dict[str, Any]:
        """What `gateway cluster status` tells."""
        run = self._run("status", "--json")
        return dict(json.loads(run.stdout or "{}"))

    def hand_over(self, node: str) -> None:
        """Make a node primary, and wait until it serves."""
        assert self._run("handover", node).returncode == 0
        self.await_primary(node)

    def await_primary(self, node: str) -> None:
        wait_until(lambda: is_ready(self.nodes[node].http_port), f"{node} is primary")

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gateway", "cluster", *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)

    @property
    def environment(self) -> dict[str, str]:
        """For programs that call `gateway cluster`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        return kept | self.variables


@contextmanager
def running_cluster(
    folder: Path, *, each: Mapping[str, Mapping[str, object]] | None = None, **settings: object
) -> Iterator[RunningCluster]:
    """Nodes `one`, which is primary, and `two`, for the block.  `settings`: of both.  `each`: by name, those of one."""
    with nats_servers(folder / "nats", 1) as (nats,), ExitStack() as stack:
        own = {"cluster": "shop", "cluster_servers": f"{HOST}:{nats.port}", "cluster_replicas": 1}
        own |= {"cluster_replicas_anyway": "true"}
        policy = '[[policy]]\nmatch = "/queue/#"\ndurable = true\n'
        nodes: dict[str, GatewayProcess] = {}
        for name in ("one", "two"):
            place = folder / name
            place.mkdir()
            (place / "gateway.toml").write_text(policy)
            store = f"sqlite:{place / 'copy.db'}"
            nodes[name] = GatewayProcess(
                place, own | {"cluster_node": name, "store": store} | settings | dict((each or {}).get(name, {}))
            )
            stack.enter_context(nodes[name].running())
            if name == "one":
                wait_until(lambda: is_ready(nodes["one"].http_port), "one is primary")
        variables = {f"GATEWAY_{name.upper()}": str(value) for name, value in own.items()}
        variables["GATEWAY_STORE"] = "sqlite:none.db"  # the command opens none
        cluster = RunningCluster(nodes, variables)
        wait_until(lambda: len(cluster.status()["nodes"]) == 2, "both nodes are there")
        yield cluster


def is_ready(http_port: int, host: str = HOST) -> bool:
    """True if `/readyz` is 200."""
    try:
        with urllib.request.urlopen(f"http://{host}:{http_port}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not in {PATIENCE:g} s: {what}"
        time.sleep(0.05)
