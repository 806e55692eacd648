"""docs/relay.md, between two gateways that have the names of the page, the second one with TLS."""

from __future__ import annotations

import json

import pytest
import trustme

from tests.docs.machine import PATIENCE, Machine
from tests.docs.page import listed

pytestmark = [pytest.mark.slow, pytest.mark.long]

AWAIT = "timeout {patience} bash -c 'until grep -q {word} {file}; do sleep 0.05; done'"


@pytest.fixture
def both(machine: Machine) -> Machine:
    authority = trustme.CA()
    certificate = authority.issue_cert("two")
    machine.write("two.pem", authority.cert_pem.bytes().decode())
    machine.write("certificate.pem", "".join([each.bytes().decode() for each in certificate.cert_chain_pems]))
    machine.write("key.pem", certificate.private_key_pem.bytes().decode())
    machine.run("printf '127.0.0.1 one\\n127.0.0.2 two\\n' >> /etc/hosts; chmod 600 key.pem")
    machine.run("echo first > one.passcode; echo second > two.passcode")
    machine.run("gateway passwd users.txt a < one.passcode; gateway passwd users.txt b < two.passcode")
    machine.run("export GATEWAY_USERS_FILE=users.txt GATEWAY_LOGIN_DELAY=0")
    tls = "GATEWAY_TCP= GATEWAY_TCP_TLS=127.0.0.2:61614 GATEWAY_TLS_CERTIFICATE=certificate.pem GATEWAY_TLS_KEY=key.pem"
    machine.run(f"{tls} GATEWAY_WEBSOCKET= GATEWAY_HTTP=127.0.0.1:8001 gateway serve > two.log 2>&1 & two=$!")
    machine.serve()
    machine.run(AWAIT.format(patience=PATIENCE, word="listening", file="two.log"))
    return machine


def at(name: str) -> str:
    if name == "one":
        return "--url stomp://a@one:61613 --passcode-file one.passcode"
    return "--url stomps://b@two:61614 --passcode-file two.passcode --ca two.pem"


def relay(machine: Machine, command: str) -> None:
    machine.run(f"{command} > relay.log 2>&1 & relay=$!")
    status, _ = machine.type(AWAIT.format(patience=PATIENCE, word="relaying", file="relay.log"))
    assert status == 0, machine.run("cat relay.log")


def end(machine: Machine) -> list[dict[str, object]]:
    machine.run("kill -TERM $relay; wait $relay")
    lines = [json.loads(line) for line in machine.run("cat relay.log").splitlines()]
    return [line for line in lines if line["event"] == "relayed"]


def test_a_command(both: Machine) -> None:
    command = listed("docs/relay.md")[0]
    both.run("export STOMP_FROM_PASSCODE=first STOMP_TO_PASSCODE=second SSL_CERT_FILE=two.pem")
    relay(both, command)
    both.run(f"gateway send /queue/orders tea {at('one')}")
    assert both.run(f"gateway subscribe /queue/orders --count 1 {at('two')}").endswith("\ntea\n")
    (told,) = end(both)
    (shown,) = listed("docs/relay.md", "Log")
    expected = json.loads(shown)
    assert expected.keys() <= told.keys()
    assert {name: told[name] for name in ("source", "target", "messages")} == {
        **{name: expected[name] for name in ("source", "target")},
        "messages": 1,
    }


def test_a_file(both: Machine) -> None:
    """Where the service reads it."""
    _, command, *table = listed("docs/relay.md")
    both.write("relay.toml", "".join([f"{line}\n" for line in table]))
    both.run("groupadd --system stomp-gateway || getent group stomp-gateway")
    files, unit, *_ = listed("docs/operations.md", "A relay to another server")
    both.run("mkdir /etc/stomp-gateway")
    both.run(files)
    both.run(unit)
    relay(both, f"(cd /etc/stomp-gateway && exec {command})")
    both.run(f"gateway send /queue/orders tea {at('one')}")
    assert both.run(f"gateway subscribe /queue/orders --count 1 {at('two')}").endswith("\ntea\n")
    both.run(f"gateway send /queue/answers milk {at('two')}")
    assert both.run(f"gateway subscribe /queue/answers --count 1 {at('one')}").endswith("\nmilk\n")
    assert [line["messages"] for line in end(both)] == [1, 1]
