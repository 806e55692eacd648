"""`gateway acl`: the effect of the rules in gateway.toml for a user.

It runs the gateway's own code on the current file; a running gateway may have read an older one.
"""

from __future__ import annotations

import json
import sys
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.broker.model import destinations
from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.destinations import RENEW
from gateway.broker.model.identity import Identity

if TYPE_CHECKING:
    from gateway.auth.rules import Explanation, Rules

_ACTIONS = [action.value for action in Action]
_TRANSPORTS = ["tcp", "websocket"]
_UNIX = "unix"

_GROUP = "A group of the user; repeatable. Default: as in users_file."

_ADDRESS = (
    f"The user's address, behind all trusted proxies; {_UNIX}: a unix socket. "
    "Without it, rules with addresses do not apply."
)

REFUSED = 3  # the exit status of `explain` for a refusal; 1 is an error, 2 an error in the arguments


def _address(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """The address in the form of rules; empty: a unix socket; None: not given."""
    if text is None:
        return None
    if text == _UNIX:
        return ""
    try:
        found = ip_address(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not an address: write 192.0.2.7, 2001:db8::7 or {_UNIX}") from None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


@click.group()
def acl() -> None:
    """Explain the rules on users and destinations."""


@acl.command()
@click.argument("user")
@click.argument("action", type=click.Choice(_ACTIONS))
@click.argument("destination")
@click.option("--group", "groups", multiple=True, help=_GROUP)
@click.option("--transport", type=click.Choice(_TRANSPORTS), default=_TRANSPORTS[0], show_default=True)
@click.option("--address", callback=_address, metavar="ADDRESS", help=_ADDRESS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def explain(
    user: str,
    action: str,
    destination: str,
    groups: tuple[str, ...],
    transport: str,
    address: str | None,
    as_json: bool,
) -> None:
    """Tell whether USER may do ACTION at DESTINATION, and which rule decides.

    DESTINATION is written as in a frame.  Of a pattern all, some or none may be allowed.

    Exit status: 0 when it is allowed; 3 when it is refused, or only a part of a pattern is allowed; 1 when the rules
    cannot be read, or DESTINATION is wrong.
    """
    from gateway.auth.rules import Rules
    from gateway.broker.errors import NotAllowed
    from gateway.config.settings import SettingsError, load

    if destinations.is_presence(destination):
        action, destination = Action.PRESENCE.value, destination.removeprefix(destinations.PRESENCE)
    try:
        settings = load()
        rules = Rules(settings.rule)
        names = _names(user, Action(action), destination)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    except NotAllowed as error:
        raise click.ClickException(f"{error}: {error.detail}") from None
    identity = Identity(user, frozenset(groups) or _groups_of(user, settings.users_file))
    found = [_explained(rules, identity, (transport, address), Action(action), name) for name in names]
    for each in found:
        click.echo(json.dumps(_row(each)) if as_json else each.text)
    if any(each.reach is not Coverage.ALL for each in found):
        sys.exit(REFUSED)


def _groups_of(user: str, users_file: Path | None) -> frozenset[str]:
    """The groups of a user in the users file; none, with a warning, if it cannot be read."""
    from gateway.auth import passwords
    from gateway.files import FileFault

    if users_file is None:
        return frozenset()
    try:
        found = passwords.read_users(users_file).get(user)
    except FileFault as fault:
        click.echo(f"The groups of {user} are unknown: {fault}; name them with --group", err=True)
        return frozenset()
    return frozenset() if found is None else found.groups


def _names(user: str, action: Action, destination: str) -> list[str]:
    """The canonical names of a destination in a frame: a SEND may have several.  Raises NotAllowed."""
    if action is Action.SEND and destination == RENEW:
        return [destination]
    if destination.startswith(destinations.TEMPORARY):
        return [destination]
    if action is Action.SUBSCRIBE and destinations.is_temporary(destination):
        return [destination]
    if action is Action.SUBSCRIBE:
        return [destinations.canonical_for(user, destination)]
    return [destinations.canonical(part) for part in destinations.split(destination)]


def _explained(rules: Rules, identity: Identity, way: tuple[str, str | None], action: Action, name: str) -> Explanation:
    from gateway.auth.rules import Explanation
    from gateway.broker.core.authorization import FREE

    free = ""
    if name.startswith((*FREE, *destinations.TEMPORARY)):
        free = "temporary destinations, and those of a session of its own, need no rule"
    elif not rules.index.patterns:
        free = "there are no rules, so every user may do everything"
    if free:
        return Explanation(action, name, Coverage.ALL, (), False, free)
    return rules.explain(identity, *way, action, name)


def _row(found: Explanation) -> dict[str, object]:
    return {
        "action": found.action.value,
        "destination": found.name,
        "allowed": found.reach.value,
        "rules": [{"number": number, "line": line or None} for number, line in found.rules],
        "default": found.default,
        "text": found.text,
    }
