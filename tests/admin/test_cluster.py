"""The cluster in the API: without one, as primary, as standby; and the handover with its refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from docs.generate import api
from gateway.admin.cluster import ROLES
from gateway.admin.openapi import document
from gateway.cluster.log import LogUnavailable
from gateway.cluster.node import Role
from tests.cluster.gateways import Pair, two_gateways
from tests.observe.everything import a_node

from ..app.asgi import Answer
from .running import Running, check


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_gateways(tmp_path_factory.mktemp("pair")) as found:
        for name in found.nodes:
            found.until(lambda name=name: is_settled(found.cluster(name)))
        yield found


def is_settled(answer: Any) -> bool:
    """All nodes have applied the log, and it is known which server has it."""
    servers = answer["log"]["servers"] if answer["log"] else []
    return all(each["applied"] and not each["lag"] for each in answer["nodes"]) and [
        (each["leads"], each["leads_lease"]) for each in servers
    ] == [(True, True)]


class ANode:
    """A primary that can be asked for a handover."""

    def __init__(self) -> None:
        self.values = a_node()
        self.asked: list[str] = []
        self.drained = 0
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.values, name)

    def drain(self) -> None:
        self.drained += 1

    async def ask_for_handover(self, to: str) -> None:
        if self.error is not None:
            raise self.error
        self.asked.append(to)


@pytest.fixture
def node(site: Running) -> ANode:
    found: Any = ANode()
    site.gateway.node = found
    return found  # type: ignore[no-any-return]


def test_the_roles_are_those_of_a_node() -> None:
    assert list(ROLES) == [str(each) for each in Role]


async def test_without_a_cluster(site: Running) -> None:
    found = await site.get("cluster")
    assert (found["cluster"], found["nodes"], found["log"]) == (None, [], None)
    answer = await site.ask("POST", "cluster/handover", {})
    assert (answer.status, answer.error) == (404, "this gateway is no node of a cluster: the setting cluster names one")
    assert (await site.get("overview"))["standby"] is None


async def test_why_a_standby_is_not_ready(site: Running, node: ANode) -> None:
    site.gateway._server.standby = lambda: "the primary is b"
    for values, sentence in (
        ({}, "this node is a standby: the primary is b"),
        ({"is_drained": True}, "this node is drained: the primary is b"),
        ({"failure": "it is full"}, "this node is a standby that cannot take over: it is full; the primary is b"),
    ):
        vars(node.values).update(values)
        answer = await site.ask("GET", "/readyz")
        assert (answer.status, answer.error) == (503, sentence)


class TestHandover:
    @pytest.mark.parametrize("to", ["", "b"])
    async def test_it_is_asked_for(self, site: Running, node: ANode, to: str) -> None:
        with capture_logs() as logs:
            found = await site.post("cluster/handover", {"node": to}, status=202)
        assert (found, node.asked) == ({"asked": True, "primary": "a"}, [to])
        (line,) = [each for each in logs if each["event"] == "admin"]
        assert (line["action"], line["target"], line["outcome"]) == ("handover", to, "done")

    @pytest.mark.parametrize(
        ("values", "to", "status", "sentence"),
        [
            ({}, "a", 409, "a is the primary already"),
            ({}, "c", 409, "there is no standby of that name: b"),
            ({"nodes": []}, "", 409, "there is no standby that could take over"),
            ({"primary": None}, "", 409, "the cluster has no primary for now"),
            ({"unavailable": "it is down"}, "", 503, "it is down"),
        ],
    )
    async def test_refusals(
        self, site: Running, node: ANode, values: dict[str, object], to: str, status: int, sentence: str
    ) -> None:
        vars(node.values).update(values)
        answer = await site.ask("POST", "cluster/handover", {"node": to})
        assert (answer.status, answer.error, node.asked) == (status, sentence, [])

    async def test_the_servers_do_not_answer(self, site: Running, node: ANode) -> None:
        node.error = LogUnavailable("no answer in time")
        answer = await site.ask("POST", "cluster/handover", {})
        assert (answer.status, answer.error) == (503, "no answer in time")


class TestDrain:
    """Which answer an operator gets; `test_a_drained_primary_hands_over` has what happens."""

    @pytest.mark.parametrize(
        ("values", "query", "then"),
        [
            ({"role": "primary", "has_standby": True}, "", "another node takes over: stop or restart"),
            ({"role": "primary", "has_standby": False}, "?force=true", "another node takes over: stop or restart"),
            ({"role": "standby"}, "", "stop or restart the process: this node takes over no more"),
            ({"role": "drained"}, "", "stop or restart the process: this node takes over no more"),
        ],
    )
    async def test_it_drains_the_node(
        self, site: Running, node: ANode, values: dict[str, object], query: str, then: str
    ) -> None:
        vars(node.values).update(values)
        found = await site.post(f"drain{query}", status=202)
        assert (found["draining"], found["next"].startswith(then), node.drained) == (True, True, 1)
        assert not site.gateway.draining, "it is the node that ends this gateway"

    @pytest.mark.parametrize(
        ("values", "reason"),
        [({}, "there is no standby that could take over"), ({"unavailable": "they are down"}, "they are down")],
    )
    async def test_refused_where_no_node_takes_over(
        self, site: Running, node: ANode, values: dict[str, object], reason: str
    ) -> None:
        vars(node.values).update({"has_standby": False, **values})
        answer = await site.ask("POST", "drain")
        then = "with force=true, clients wait until another node, or this one, is started"
        assert (answer.status, answer.error, node.drained) == (409, f"{reason}: {then}", 0)


def checked(pair: Pair, name: str, path: str) -> Any:
    """The answer of a GET, which fits its schema."""
    status, found = pair.ask(name, path)
    answer = Answer(status, {"content-type": "application/json"}, api.json.dumps(found).encode())
    check(document(api.table()), "GET", f"/{path}", answer)
    return found


@pytest.mark.slow
class TestOfTwo:
    def test_both_tell_the_same(self, pair: Pair) -> None:
        answers = {name: checked(pair, name, "api/v1/cluster") for name in pair.nodes}
        for name, found in answers.items():
            assert (found["cluster"], found["node"], found["primary"], found["failure"]) == ("shop", name, "a", None)
            assert [(each["node"], each["role"], each["lag"]) for each in found["nodes"]] == [
                ("a", "primary", 0),
                ("b", "standby", 0),
            ]
            assert [each["url"] for each in found["nodes"]] == [each.http_url for each in pair.nodes.values()]
            assert found["log"]["last"] >= 1
            assert found["log"]["snapshot"] is None
            assert found["log"]["servers"] == [{"name": "n0", "leads": True, "leads_lease": True, "current": True}]
            assert [(each["failure"], each["server"]) for each in found["nodes"]] == [(None, "n0")] * 2
            assert all(0 < time.time() - each["applied"] < 600 for each in found["nodes"])
        (change,) = answers["a"]["changes"]
        assert (change["node"], change["epoch"], change["reason"]) == ("a", 1, "it is the first primary")
        assert answers["b"]["changes"] == [{**change, "took": None}]
        assert (answers["a"]["role"], answers["b"]["role"]) == ("primary", "standby")

    def test_a_standby_is_no_fault(self, pair: Pair) -> None:
        found = checked(pair, "b", "api/v1/overview")
        address = f"127.0.0.1:{pair.nodes['a'].tcp_port}"
        assert found["standby"] == {"node": "b", "primary": "a", "address": address, "url": pair.nodes["a"].http_url}
        assert (found["drain"], found["ready"], found["problems"]) == (None, False, [])
        status, ready = pair.ask("b", "readyz")
        assert (status, ready["error"].startswith("this node is a standby: the primary is a at ")) == (503, True)
        assert pair.ask("a", "readyz")[0] == 200
        assert checked(pair, "a", "api/v1/overview")["standby"] is None

    def test_metrics(self, pair: Pair) -> None:
        from urllib.request import urlopen

        for name, role in (("a", "primary"), ("b", "standby")):
            with urlopen(f"{pair.nodes[name].http_url}/metrics") as answer:
                lines = dict(each.rsplit(" ", 1) for each in answer.read().decode().splitlines() if each[0] != "#")
            assert lines[f'gateway_cluster_role{{role="{role}"}}'] == "1.0"
            assert lines['gateway_cluster_nodes{role="standby"}'] == "1.0"
            assert float(lines["gateway_cluster_epoch"]) >= 1
            assert lines["gateway_cluster_available"] == "1.0"
            assert float(lines["gateway_cluster_log_messages"]) >= 1
            assert (float(lines["gateway_cluster_lease_age_seconds"]) > 0) == (role == "primary")

    def test_there_and_back(self, pair: Pair) -> None:
        status, found = pair.ask("b", "api/v1/cluster/handover", {"node": "b"})
        assert (status, found) == (202, {"asked": True, "primary": "a"})
        for name in pair.nodes:
            change = pair.sees(name, a="standby", b="primary")["changes"][0]
            assert (change["node"], change["epoch"], change["reason"]) == ("b", 2, "a handover")
        assert pair.ask("b", "api/v1/cluster/handover", {})[0] == 202
        for name in pair.nodes:
            assert pair.sees(name, a="primary", b="standby")["changes"][0]["epoch"] == 3


@pytest.mark.slow
def test_a_drained_primary_hands_over(tmp_path: Path) -> None:
    with two_gateways(tmp_path) as pair:
        assert checked(pair, "a", "api/v1/cluster")["role"] == "primary"
        status, found = pair.ask("a", "api/v1/drain", {})
        assert (status, found["next"].partition(":")[0]) == (202, "another node takes over")
        for name in pair.nodes:
            assert pair.sees(name, a="drained", b="primary")["changes"][0]["reason"] == "a handover"
        overview = checked(pair, "a", "api/v1/overview")
        assert (overview["drain"], overview["standby"]["primary"]) == ("drained", "b")
        assert pair.ask("a", "readyz")[1]["error"].startswith("this node is drained: the primary is b at ")
        # The other one has no standby now: it drains when it must, and nothing takes over.
        assert pair.ask("b", "api/v1/cluster/handover", {})[0] == 409
        assert pair.ask("b", "api/v1/drain", {})[0] == 409
        assert pair.ask("b", "api/v1/drain?force=true", {})[0] == 202
        pair.until(lambda: pair.cluster("b")["role"] == "drained")
        # A restart ends the drain.
        pair.nodes["a"].restart()
        assert pair.sees("b", a="primary", b="drained")["primary"] == "a"


@pytest.mark.slow
def test_a_primary_forgets_that_the_servers_were_away(tmp_path: Path) -> None:
    with two_gateways(tmp_path) as pair:
        pair.server.kill()
        pair.until(lambda: pair.cluster("a")["failure"])
        asked = "api/v1/problems"
        pair.until(lambda: "cluster-unavailable" in [each["id"] for each in pair.ask("a", asked)[1]["problems"]])
        pair.server.start()
        for name in pair.nodes:
            pair.until(lambda name=name: not pair.cluster(name)["failure"])
        pair.until(lambda: "primary" in [each["role"] for each in pair.cluster("b")["nodes"]])
