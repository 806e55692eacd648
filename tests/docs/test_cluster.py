"""docs/cluster.md, done as it stands: three machines are three addresses of one; the first is lost; there and back."""

from __future__ import annotations

import re

import pytest

from tests.docs.machine import FOLDER, Machine
from tests.docs.page import Block, blocks, listed, perform

PAGE = "docs/cluster.md"
HOSTS = ("one", "two", "three")
SETUP = "Three machines in ten minutes"

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture
def three(machine: Machine) -> Machine:
    """Machines that find each other by name, each with a folder."""
    for number, host in enumerate(HOSTS, 1):
        machine.run(f"ip address add 192.0.2.{number}/32 dev lo; echo 192.0.2.{number} {host} >> /etc/hosts")
        machine.run(f"mkdir {host}; ln -s ../deploy {host}/deploy")
    return machine


def on(host: str, machine: Machine) -> None:
    machine.run(f"cd {FOLDER}/{host}")


def place(machine: Machine, host: str, file: str) -> None:
    """Write a file of the page, with the name of the machine where the page says so."""
    (text,) = [block.text for block in blocks(PAGE) if block.title == SETUP and block.file == file]
    text = re.sub(r"\bone\b(?=.*# this machine)", host, text)
    # A route to an address of this machine, at the server's own port, is one to itself: so each has another port.
    for port, each in enumerate(HOSTS, 6222):
        text = text.replace(f"{each}:6222", f"{each}:{port}")
    machine.write(file, text)


def start(machine: Machine, name: str, command: str) -> None:
    """Run a command that stays, whose process is $NAME then."""
    assert command.endswith(" &")
    machine.run(f"{command} {name}=$!")


def ready(machine: Machine, host: str) -> None:
    machine.run(
        f"timeout 60 bash -c 'until curl -fs -o /dev/null http://{host}/readyz 2> /dev/null; do sleep 0.1; done'"
    )


def set_up(machine: Machine) -> None:
    nats, users, gateway, placed, balancer = listed(PAGE, SETUP)
    for host in HOSTS:
        on(host, machine)
        place(machine, host, "nats-server.conf")
        start(machine, f"nats_{host}", nats)
    for host in ("one", "two"):
        on(host, machine)
        place(machine, host, "gateway.toml")
        machine.run(users)
        start(machine, f"gateway_{host}", gateway)
        if host == "one":
            ready(machine, "one:8000")
    on("three", machine)
    machine.run(placed)
    start(machine, "balancer", balancer)
    ready(machine, "three")


def see(machine: Machine, steps: list[Block]) -> None:
    assert perform(machine, steps) >= 2


def test_three_machines(three: Machine) -> None:
    set_up(three)
    first, second = [block for block in blocks(PAGE) if block.kind == "console"]
    on("one", three)
    three.run(r"until gateway cluster status | grep -q 'standby .* 0 '; do sleep 0.2; done")
    see(three, [first])
    three.run("kill -9 $gateway_one $nats_one")
    on("two", three)
    see(three, [second])
    assert "primary   two, epoch 2" in three.type("gateway cluster status")[1]
    # One comes back as a standby, and may be made the primary again.
    on("one", three)
    nats, _, gateway, *_ = listed(PAGE, SETUP)
    start(three, "nats_one", nats)
    start(three, "gateway_one", gateway)
    three.run(r"timeout 60 bash -c 'until gateway cluster status > status.txt; do sleep 0.2; done'; cat status.txt")
    three.run("gateway cluster handover one")
    ready(three, "one:8000")


def test_there_and_back(three: Machine) -> None:
    """The store of one gateway becomes that of a cluster, and that of one gateway again."""
    bootstrap, export, import_ = listed(PAGE, "From one gateway to a cluster, and back")
    assert listed(PAGE, "Snapshots and backups") == [export]
    nats, users, gateway, *_ = listed(PAGE, SETUP)
    for host in HOSTS:
        on(host, three)
        place(three, host, "nats-server.conf")
        start(three, f"nats_{host}", nats)
    on("one", three)
    place(three, "one", "gateway.toml")
    three.run(users)
    alone = "env GATEWAY_CLUSTER= GATEWAY_TCP_PROXY_PROTOCOL=false GATEWAY_STORE=sqlite:store.db gateway serve"
    sent = "gateway send /queue/work {} --url stomp://alice@one:61613 --passcode-file passcode.txt"
    three.run("echo wonderland > passcode.txt")
    start(three, "alone", f"{alone} > alone.log 2>&1 &")
    ready(three, "one:8000")
    three.run(sent.format("tea"))
    three.run("kill -TERM $alone; wait $alone")
    three.run(f"timeout 60 bash -c 'until {bootstrap} > said.txt; do sleep 0.5; done'; cat said.txt")
    assert "begins with 1 messages of store.db" in three.run("cat said.txt")
    start(three, "gateway_one", gateway.replace("gateway serve", "GATEWAY_TCP_PROXY_PROTOCOL=false gateway serve"))
    ready(three, "one:8000")
    three.run(sent.format("coffee"))
    three.run("kill -TERM $gateway_one; wait $gateway_one")
    three.run(export)
    three.run("mv store.db before.db")
    three.run(import_)
    status, said = three.type(f"timeout 30 {alone.replace('store.db', 'copy.db')} 2>&1")
    assert status == 1
    assert "is a node's copy of the log of a cluster" in said
    start(three, "alone", f"{alone} > alone.log 2>&1 &")
    ready(three, "one:8000")
    shown = three.run(
        "gateway subscribe /queue/work --count 2 --url stomp://alice@one:61613 --passcode-file passcode.txt"
    )
    assert shown.splitlines()[-2:] == ["tea", "coffee"]
