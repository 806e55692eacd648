"""Rules: tables are read, or refused in words; what they say of a pattern, they say of the names that it matches."""

from __future__ import annotations

import tomllib
from ipaddress import ip_address

from gateway.auth.rules import Rules
from gateway.broker.errors import NotAllowed
from gateway.broker.model import destinations
from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.identity import Identity
from gateway.broker.model.patterns import Pattern, has_wildcard
from gateway.config.rules import RuleError, read_tables
from tests.fuzz.targets import check_refusal


def run(octets: bytes) -> None:
    """The tables; behind a first NUL the user's name, and behind each other one a destination, or an address."""
    text, *words = octets.decode(errors="replace").split("\0")
    try:
        tables = read_tables(tomllib.loads(text).get("rule", ()))
    except tomllib.TOMLDecodeError:
        return
    except RuleError as refusal:
        check_refusal(refusal)
        return
    user, *texts = words or [""]
    rules = Rules(tables)
    identity = Identity(user or "anonymous")
    address = next((text for text in texts if _is_address(text)), "")
    access = rules.access_of(identity, "tcp", address)
    if access is None:
        return
    names = [name for each in texts if (name := _name(identity.user, each))]
    for name in names:
        for action in Action:
            said = None if has_wildcard(name) else rules.explain(identity, "tcp", address, action, name)
            assert said is None or (said.reach is Coverage.ALL) is access.may(action, name)
        if has_wildcard(name):
            _compare(access.reach(name), [access.may(Action.SUBSCRIBE, each) for each in _matched(name, names)])


def _is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


def _name(user: str, text: str) -> str:
    try:
        return destinations.canonical_for(user, text)
    except NotAllowed as refusal:
        check_refusal(refusal)
        return ""


def _matched(pattern: str, names: list[str]) -> list[str]:
    found = Pattern(pattern)
    return [name for name in names if not has_wildcard(name) and found.matches(name)]


def _compare(reach: Coverage, allowed: list[bool]) -> None:
    assert reach is not Coverage.ALL or all(allowed)
    assert reach is not Coverage.NONE or not any(allowed)
