"""Start of a node as a process: what cannot be used is one sentence, as for a gateway alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.cluster.servers import NatsServer
from tests.gateway_process import free_ports

PATIENCE = 60


def test_one_that_waits_for_its_servers_ends_at_a_signal(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    variables |= {
        "GATEWAY_HTTP": "127.0.0.1:0",
        "GATEWAY_STORE": f"sqlite:{tmp_path}/copy.db",
        "GATEWAY_CLUSTER": "start",
        "GATEWAY_CLUSTER_SERVERS": f"127.0.0.1:{port}",
    }
    arguments = [sys.executable, "-m", "gateway", "serve"]
    with subprocess.Popen(arguments, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        while "waiting for the NATS servers" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGTERM)
        said += process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_a_port_that_is_in_use(nats: NatsServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        variables |= {
            "GATEWAY_TCP": f"127.0.0.1:{port}",
            "GATEWAY_HTTP": "127.0.0.1:0",
            "GATEWAY_STORE": f"sqlite:{tmp_path}/copy.db",
            "GATEWAY_CLUSTER": "start",
            "GATEWAY_CLUSTER_SERVERS": str(nats.address),
            "GATEWAY_CLUSTER_REPLICAS": "1",
            "GATEWAY_CLUSTER_REPLICAS_ANYWAY": "true",
        }
        arguments = [sys.executable, "-m", "gateway", "serve"]
        ended = subprocess.run(
            arguments, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    assert ended.returncode == 1, ended.stderr
    assert f"cannot listen on 127.0.0.1:{port}: the address is in use" in ended.stderr
    assert "Traceback" not in ended.stderr
