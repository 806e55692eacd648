"""Commands that pages name to look at a gateway that runs: each as it stands, on a machine of its own (`machine`).

What never ends by itself is told when to, and the doctor need not hold silent connections.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.docs.machine import ADDRESS, FOLDER, ROOT, Machine
from tests.docs.page import behind_nginx, commands, listed, perform

pytestmark = pytest.mark.slow


def test_readme(machine: Machine) -> None:
    machine.serve()
    top, send, subscribe, doctor = listed("README.md", "See what goes on")
    assert machine.run(send) == "1 message sent and confirmed\n"
    assert "/queue/work" in machine.run(top)
    assert machine.run(f"{subscribe} --count 1").endswith("\ntea for two\n")
    assert "FAIL" not in machine.run(f"{doctor} --idle 0")


@pytest.mark.long
def test_settings(machine: Machine) -> None:
    shown, bound, every = listed("docs/settings.md")
    assert "max_body" in machine.run(shown)
    machine.run(bound)
    assert len(machine.run(every).splitlines()) > 50
    machine.serve()
    status, told = machine.type(bound)  # the ports are the gateway's now
    assert (status, "61613" in told) == (1, True), told


@pytest.mark.long
def test_operations(machine: Machine) -> None:
    machine.serve("GATEWAY_ADMIN_TOKEN=sesame gateway serve")
    machine.run("export TOKEN=sesame; gateway send /queue/work tea")
    ready, destinations = listed("docs/operations.md", "HTTP")
    assert json.loads(machine.run(ready)) == {"status": "ready"}
    (found,) = json.loads(machine.run(destinations))["destinations"]
    assert (found["name"], found["waiting"]) == ("/queue/work", 1)


@pytest.mark.long
def test_alerts(machine: Machine) -> None:
    machine.serve("GATEWAY_ADMIN_TOKEN=sesame gateway serve")
    machine.run("export TOKEN=sesame")
    ready, journal, sessions = listed("docs/alerts.md")
    assert json.loads(machine.run(ready)) == {"status": "ready"}
    assert "listening" in machine.run(journal)
    assert json.loads(machine.run(sessions))["total"] == 0


@pytest.mark.long
def test_logs(machine: Machine) -> None:
    """One session, and what an operator did."""
    machine.serve("GATEWAY_LOG_LEVEL=debug GATEWAY_LOG_FORMAT=json GATEWAY_ADMIN_TOKEN=sesame gateway serve")
    machine.run("gateway send /queue/work tea")
    delete = "curl -X DELETE -H 'Authorization: Bearer sesame' http://127.0.0.1:8000/api/v1/sessions/none"
    machine.run(delete)
    one, operators, journal = listed("docs/logs.md")
    connected = machine.run("""journalctl | jq -r 'select(.event == "connected").session'""").split()
    lines = machine.run(one.replace("4f1c2a7e9b3d5f60", connected[0])).splitlines()
    assert {json.loads(line)["session"] for line in lines} == {connected[0]}
    assert {json.loads(line)["logger"] for line in machine.run(operators).splitlines()} == {"gateway.audit"}
    assert "listening" in machine.run(journal)


@pytest.mark.long
def test_tracing(machine: Machine) -> None:
    """A traced message has the gateway's span in it; nobody collects what is told."""
    _, *settings = listed("docs/tracing.md")
    machine.write("gateway.toml", "".join([f"{line}\n" for line in settings]))
    machine.serve()
    command, *headers = listed("docs/tracing.md", "Headers of a traced message")
    destination, traceparent = [header.partition(":")[2] for header in headers]
    assert command == "SEND"
    machine.run(f"gateway send {destination} tea -H traceparent:{traceparent}")
    _, line = machine.run(f"gateway subscribe {destination} --json --count 1").splitlines()
    version, trace, span, flags = json.loads(line)["headers"]["traceparent"].split("-")
    before = traceparent.split("-")
    assert [version, trace, flags] == [before[0], before[1], before[3]]
    assert span != before[2]


@pytest.mark.long
@pytest.mark.timeout(180)
def test_doctor(machine: Machine) -> None:
    """Where the how-to has put a gateway behind nginx, and the system knows the authority."""
    ours = [
        replace(block, text=block.text.replace("broker.example.org", "stomp.example.org")) for block in behind_nginx()
    ]
    machine.run(f"echo '{ADDRESS} stomp.example.org' >> /etc/hosts")
    perform(machine, ours)
    machine.run("mkdir /etc/stomp-gateway && cp gateway.toml users.txt /etc/stomp-gateway/")
    machine.run("export SSL_CERT_FILE=$PWD/ca.pem")
    for title, command in commands("docs/operations.md"):
        if title == "TLS":  # the how-to in short
            machine.run(command)
    local, *others = [command for _, command in commands("docs/doctor.md")]
    assert len(others) == 4
    assert "PROXY header: tcp_proxy_protocol is on, and we send one" in machine.run(f"{local} --idle 0")
    for command in others:
        assert "FAIL" not in machine.run(f"{command} --idle 0"), command


@pytest.mark.long
@pytest.mark.timeout(180)
def test_benchmarks(machine: Machine) -> None:
    """The short one, and one row of another broker; the whole takes some minutes."""
    (short,) = [command for _, command in commands("docs/benchmarks.md") if "--seconds 0.3" in command]
    (another,) = [command for _, command in commands("docs/benchmarks.md") if "--pid PID" in command]
    machine.serve()
    machine.run(f"cd {ROOT}")
    assert "q100" in machine.run(short)
    assert "q100" in machine.run(f"{another.replace('PID', '$gateway')} --seconds 0.3 --rounds 1 q100")
    machine.run(f"cd {FOLDER}")
