"""Pages that lead step by step, done as they stand: each on a machine of its own (`machine`)."""

from __future__ import annotations

import time

import jwt
import pytest

from tests.auth import issuer
from tests.docs.machine import ADDRESS, Machine
from tests.docs.page import behind_nginx, blocks, listed, perform

PAGES = ["first-steps.md", "howto-nginx.md", "howto-tls.md", "howto-jwt.md", "moving.md"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", PAGES)
def test_step_by_step(page: str, machine: Machine) -> None:
    if page == "howto-jwt.md":
        provide(machine)
    steps = behind_nginx() if page == "howto-nginx.md" else blocks(f"docs/{page}")
    assert perform(machine, steps) > 4


def provide(machine: Machine) -> None:
    """What an identity provider has: its keys, and a token of alice."""
    machine.write("keys.json", f"{issuer.jwks(issuer.jwk('RSA', kid='of-today', use='sig'))}\n")
    claims = {"iss": "https://login.example.org/realms/shop", "aud": "gateway", "exp": time.time() + 300}
    claims |= {"preferred_username": "alice", "realm_access": {"roles": ["shop"]}}
    token = jwt.encode(claims, issuer.private("RSA"), "RS256", headers={"kid": "of-today"})
    machine.write("provided.txt", f"{token}\n")


@pytest.mark.long
@pytest.mark.slow
def test_what_waits_is_carried_over(machine: Machine) -> None:
    """docs/moving.md; the old broker is a gateway, too, at the same port of another address."""
    relay, pipe = listed("docs/moving.md", "Messages at the old broker")
    machine.run(f"echo '{ADDRESS} old-broker' >> /etc/hosts; echo wonderland | gateway passwd users.txt user")
    machine.serve(f"GATEWAY_USERS_FILE=users.txt GATEWAY_TCP={ADDRESS}:61613 gateway serve")
    machine.run("export STOMP_PASSCODE=wonderland STOMP_FROM_PASSCODE=wonderland")
    machine.run("gateway send /queue/work tea --header colour:green --url stomp://user@old-broker:61613")
    machine.run("GATEWAY_WEBSOCKET= GATEWAY_HTTP=127.0.0.1:8001 gateway serve > new.log 2>&1 & new=$!")
    machine.run("timeout 30 bash -c 'until grep -q 61613 new.log; do sleep 0.05; done'")
    assert "\n1 message sent and confirmed\n" in machine.run(pipe)
    assert '"body": "tea"' in machine.run("cat backup.json")
    assert machine.run("gateway subscribe /queue/work --browse --url stomp://user@old-broker:61613") == ""
    _, line = machine.run("gateway subscribe /queue/work --json --count 1").splitlines()
    assert '"body": "tea"' in line
    assert '"colour": "green"' in line
    machine.run("gateway send /queue/work coffee --header colour:brown --url stomp://user@old-broker:61613")
    machine.run(f"{relay} > relay.log 2>&1 & relay=$!")
    _, line = machine.run("gateway subscribe /queue/work --json --count 1").splitlines()
    assert '"body": "coffee"' in line
    assert '"colour": "brown"' in line
    machine.run("kill -TERM $relay; wait $relay")
    assert machine.run("gateway subscribe /queue/work --browse --url stomp://user@old-broker:61613") == ""
    machine.run("gateway send /queue/work milk --url stomp://user@old-broker:61613; kill -TERM $new; wait $new")
    assert machine.type(pipe)[0] != 0, "nobody is there who could take it"
    assert '"body": "milk"' in machine.run("cat backup.json")
