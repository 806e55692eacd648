"""HAProxy and nginx in front of a cluster, with the files of deploy/: clients land on the
primary, also after a handover.

A standby answers CONNECT with an ERROR, so a client that is CONNECTED is at the primary.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from tests.clients.driver import tool
from tests.clients.nginx import DEPLOY, end, replaced
from tests.deploy.cluster import RunningCluster, is_ready, running_cluster, wait_until
from tests.gateway_process import HOST, free_ports
from tests.transports.peers import UPGRADE, Peer, TcpWire, WebSocketWire, dial_stream, response_of

pytestmark = [pytest.mark.slow, pytest.mark.long]

BEHIND = {"tcp_proxy_protocol": "true", "trusted_proxies": HOST, "admin_token": "operator"}
"""Settings, as the heads of the files want them, without users: all of this is loopback."""


@contextmanager
def running(*command: str) -> Iterator[None]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "it has ended"
    finally:
        end(process)


def haproxy(cluster: RunningCluster, stomp: int, http: int) -> str:
    """deploy/haproxy.cfg for these nodes."""
    words = {"bind :61613": f"bind {HOST}:{stomp}", "bind :80": f"bind {HOST}:{http}"}
    for name, node in cluster.nodes.items():
        for word, port in {"61613": node.tcp_port, "15674": node.ws_port, "8000": node.http_port}.items():
            words[f"server {name} {name}:{word}"] = f"server {name} {HOST}:{port}"
    return replaced(DEPLOY / "haproxy.cfg", words)


def write_nginx(cluster: RunningCluster, folder: Path, port: int, stomp: int) -> Path:
    """deploy/nginx-cluster.conf and -stream.conf for these nodes, with nginx's own places below `folder`."""
    words = {f"server {name}:61613": f"server {HOST}:{node.tcp_port}" for name, node in cluster.nodes.items()}
    words["listen 61613;"] = f"listen {HOST}:{stomp};"
    (folder / "stream.conf").write_text(replaced(DEPLOY / "nginx-cluster-stream.conf", words))
    words = {"listen 80;": f"listen {HOST}:{port};", "/run/nginx.pid": f"{folder}/nginx.pid"}
    words |= {"/var/log/nginx": f"{folder}", "/var/lib/nginx": f"{folder}", "/etc/nginx/stomp-gateway": f"{folder}"}
    for name, node in cluster.nodes.items():
        words[f"server {name}:15674"] = f"server {HOST}:{node.ws_port}"
        words[f"server {name}:8000"] = f"server {HOST}:{node.http_port}"
    file = folder / "nginx.conf"
    file.write_text(replaced(DEPLOY / "nginx-cluster.conf", words))
    return file


async def connect(kind: str, port: int) -> None:
    """Connect; AssertionError: the balancer or the node refuses it."""
    async with await dial_stream(f"{HOST}:{port}") as stream:
        wire = TcpWire(stream)
        if kind == "ws":
            await stream.send_all(UPGRADE)
            wire = WebSocketWire(stream, await response_of(stream))
        await Peer(wire).connect()


def connects(kind: str, port: int) -> bool:
    """True if clients more than there are nodes all get in, so that each node had its turn."""
    try:
        for _ in range(6):
            trio.run(connect, kind, port)
    except (AssertionError, OSError):
        return False
    return True


def node_at(port: int) -> str:
    """The node that answers the admin API."""
    url = f"http://{HOST}:{port}/api/v1/cluster"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer operator"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return str(json.load(response)["node"])


def test_haproxy(tmp_path: Path) -> None:
    stomp, http = free_ports(2)
    with running_cluster(tmp_path, **BEHIND) as cluster:
        file = tmp_path / "haproxy.cfg"
        file.write_text(haproxy(cluster, stomp, http))
        with running(tool("haproxy"), "-db", "-f", str(file)):
            for node in ("one", "two"):
                if node == "two":
                    cluster.hand_over(node)
                for kind, port in (("tcp", stomp), ("ws", http)):
                    wait_until(lambda kind=kind, port=port: connects(kind, port), f"{kind} by {node}")
                wait_until(lambda: is_ready(http), "HTTP is there")
                wait_until(lambda node=node: {node_at(http) for _ in range(4)} == {node}, f"HTTP by {node}")


def test_nginx(tmp_path: Path) -> None:
    port, stomp = free_ports(2)
    tmp_path.chmod(0o755)  # started by root, nginx works as another user
    with running_cluster(tmp_path, cluster_standby_listens="false", **BEHIND) as cluster:
        file = write_nginx(cluster, tmp_path, port, stomp)
        command = [tool("nginx"), "-c", str(file), "-e", str(tmp_path / "error.log"), "-g", "daemon off;"]
        with running(*command):
            for node in ("one", "two"):
                if node == "two":
                    cluster.hand_over(node)
                wait_until(lambda: is_ready(port), "nginx is there")
                assert connects("ws", port)
                assert connects("tcp", stomp)
                assert [node_at(port) for _ in range(3)] == [node] * 3
            cluster.nodes["two"].kill()
            cluster.await_primary("one")
            assert connects("ws", port)
            assert connects("tcp", stomp)
            assert node_at(port) == "one"
            cluster.nodes["one"].kill()
            with pytest.raises(urllib.request.HTTPError, match=r"502|503"):
                node_at(port)
