"""Two gateways as processes on one NATS server: the one is primary, the other a standby."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.cluster.servers import NatsServer, nats_servers
from tests.gateway_process import GatewayProcess

PATIENCE = 30.0

Own: TypeAlias = Mapping[str, Mapping[str, object]]


class Pair:
    """`nodes`: by name, `a` and `b`; `a` is primary at first."""

    def __init__(self, folder: Path, server: NatsServer, settings: Mapping[str, object], own: Own) -> None:
        self.server = server
        self.nodes: dict[str, GatewayProcess] = {}
        for name in ("a", "b"):
            place = folder / name
            place.mkdir()
            self.nodes[name] = GatewayProcess(
                place,
                {
                    "cluster": "shop",
                    "cluster_node": name,
                    "cluster_servers": str(server.address),
                    "cluster_replicas": 1,
                    "cluster_replicas_anyway": "true",
                    "store": f"sqlite:{place}/store.db",
                    **settings,
                    **own.get(name, {}),
                },
            )

    def ask(self, name: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of the API of a node.  `body`: of a POST; None: a GET."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        request = Request(f"{self.nodes[name].http_url}/{path}", data, headers)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return int(answer.status), json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def cluster(self, name: str) -> Any:
        """GET /api/v1/cluster of a node."""
        return self.ask(name, "api/v1/cluster")[1]

    def sees(self, name: str, **roles: str) -> Any:
        """Wait until a node sees these roles, and the change that led to them; returns its answer."""

        def found() -> Any:
            answer = self.cluster(name)
            last = answer["changes"][0]["node"] if answer["changes"] else None
            seen = {each["node"]: each["role"] for each in answer["nodes"]}
            return answer if seen == roles and roles.get(last) == "primary" == roles.get(answer["primary"]) else None

        return self.until(found)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until something has come about; returns it."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, "it did not come about in time"
            time.sleep(0.1)
        return found


@contextmanager
def two_gateways(folder: Path, *, own: Own | None = None, **settings: object) -> Iterator[Pair]:
    """They run for the block.  `settings`: of both.  `own`: by name, those of one."""
    with nats_servers(folder / "nats", 1) as (server,):
        pair = Pair(folder, server, settings, own or {})
        with pair.nodes["a"].running():
            pair.sees("a", a="primary")
            with pair.nodes["b"].running():
                pair.sees("a", a="primary", b="standby")
                pair.sees("b", a="primary", b="standby")
                yield pair
