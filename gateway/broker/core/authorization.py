"""Authorization: may a client do what its frame asks?  The operator's rules say so; without rules everything goes.

    SEND              `send` at each destination that it names, before anything of it is carried out
    reply-to          `subscribe` and `send`: the program that answers uses its own rights, and must not lend them
    SUBSCRIBE         `subscribe`; of a pattern, at all that it matches
    x-queue-name      `subscribe` also at the queue of that name: its consumers take messages from each other
    /presence/TOPIC   `presence` at the topic
    queue arguments   `admin` where they change the queue for all its users, `send` where dead letters are to go

An accepted SEND stays accepted, in transactions and when it is delayed: rules that change later do not undo it.
"""

import shlex
from collections.abc import Mapping

from ..errors import AccessLost, AccessRefused, NotAllowed
from ..model import destinations as names
from ..model.access import Access, Action, Coverage
from ..model.options import SubscribeOptions
from ..model.patterns import check_words, has_wildcard
from ..model.policy import QueueArguments
from .ports import Peer

FREE = (names.REPLY_QUEUE, names.REPLY_TOPIC, "/session/")
"""How names start that need no rule: temporary destinations, and the events of a session."""

# Characters of a name that is remembered: a longer one is found out again.
_LONGEST_REMEMBERED = 200

_REFUSED = "access refused"


def is_known(access: Access, headers: Mapping[str, str]) -> bool:
    """Whether a SEND that asks for nothing special was allowed before."""
    is_sendable = headers["destination"] in access.sendable
    return is_sendable and ("reply-to" not in headers or headers["reply-to"] in access.answerable)


def remember(access: Access, headers: Mapping[str, str], most: int) -> None:
    """Such a SEND was allowed: the next one need not be looked at.  `most`: names that are remembered."""
    _add(access.sendable, headers["destination"], most)
    reply_to = headers.get("reply-to")
    # Not for user destinations: users without a name share the access, but each has destinations of its own.
    if reply_to is not None and names.USER not in reply_to:
        _add(access.answerable, reply_to, most)


def _add(known: set[str], text: str, most: int) -> None:
    if len(text) <= _LONGEST_REMEMBERED:
        if len(known) >= most:
            known.clear()
        known.add(text)


def check_send(peer: Peer, name: str, written: str) -> None:
    """Refuse a SEND to where the session may not send.  Raises NotAllowed: it may not.

    `name`: the canonical one.  `written`: the destination as the client wrote it; so in the checks below.
    """
    access = peer.access
    # A program that knows the name of another session's temporary destination was told it.
    if access is None or name.startswith(FREE):
        return
    # Before the rules are asked: the search for a name of very many words is slow.
    check_words(name, written)
    if not access.may(Action.SEND, _known_as(peer, name)):
        raise _refusal(peer, access, Action.SEND, name, written)


def check_reply_to(peer: Peer, headers: Mapping[str, str]) -> None:
    """Refuse a `reply-to` by which others would send, or a function, where the session itself has no business.

    Raises NotAllowed: it names a destination that the session may not subscribe to, or not send to; or too many.
    """
    access = peer.access
    if access is None or "reply-to" not in headers:
        return
    for part in names.split(headers["reply-to"]):
        try:
            name = names.canonical(part)
        except NotAllowed:
            # Some programs write other things there: this server sends nothing to it, so that no right is lent.
            continue
        if name.startswith(FREE):
            continue
        check_words(name, part)
        known = _known_as(peer, name)
        is_own = name.startswith(names.of_user(peer.user))
        # Whatever the rules say: no user has business at the destinations of another one.
        if name.startswith(names.USER) and not is_own:
            raise _refusal(peer, access, Action.SUBSCRIBE, "", part, "reply-to names another user's destination: ")
        # At its own user destination others answer: the session need not be allowed to send there itself.
        for action in (Action.SUBSCRIBE,) if is_own else (Action.SUBSCRIBE, Action.SEND):
            if not access.may(action, known):
                raise _refusal(peer, access, action, name, part, "reply-to: ")


def check_dead_letters(peer: Peer, arguments: QueueArguments | None) -> None:
    """Refuse queue arguments by which dead letters would come to where the session may not send.

    Raises NotAllowed: it may not send there.
    """
    if arguments is not None and arguments.dead_letter is not None:
        check_send(peer, arguments.dead_letter, arguments.dead_letter)


def check_admin(peer: Peer, name: str, written: str) -> None:
    """Refuse to change a queue for all its users.  Raises NotAllowed: the session may not."""
    access = peer.access
    # `x-max-length:1` would throw away messages that others have sent.
    if access is not None and not access.may(Action.ADMIN, name):
        raise _refusal(peer, access, Action.ADMIN, name, written, "queue arguments change it for all users: ")


def check_subscribe(peer: Peer, name: str, written: str, options: SubscribeOptions) -> None:
    """Refuse a SUBSCRIBE to where the session may not; of a pattern, unless it may have all that it matches.

    `name`: the canonical name, or pattern.  Raises NotAllowed: it may not subscribe there, or not in that way.
    """
    access = peer.access
    assert access is not None  # else the router does not ask
    check_words(name, written)
    if names.is_presence(name):
        _check_presence(peer, access, name)
        check_dead_letters(peer, options.queue_arguments)
        return
    coverage = _coverage(peer, access, name)
    if coverage is Coverage.NONE:
        raise _refusal(peer, access, Action.SUBSCRIBE, name, written)
    check_dead_letters(peer, options.queue_arguments)
    if names.is_topic(name):
        # Its consumers take messages from each other, as those of a queue do: so the rules of queues hold.
        shared = names.QUEUE + options.queue_name
        check_words(shared, options.queue_name)
        if not _may_share(access, options):
            raise _refusal(peer, access, Action.SUBSCRIBE, shared, shared, "x-queue-name: ")
    if coverage is Coverage.SOME:
        why = "the rules allow a part of what this pattern matches, and it needs all: "
        raise _refusal(peer, access, Action.SUBSCRIBE, name, written, why, "all of ")


def _check_presence(peer: Peer, access: Access, name: str) -> None:
    topic = name.removeprefix(names.PRESENCE)
    if not access.may(Action.PRESENCE, topic):
        raise _refusal(peer, access, Action.PRESENCE, topic, topic)


def lost(peer: Peer, name: str, written: str, options: SubscribeOptions, *, is_shared: bool) -> AccessLost | None:
    """The error that ends a session because rules that have changed do not allow a subscription of it; None: they do.

    The session has rules.  `name`: the canonical name, or pattern, that it consumes.  `is_shared`: it takes part in a
    durable or shared subscription.
    """
    access = peer.access
    assert access is not None
    action = Action.SUBSCRIBE
    if names.is_presence(name):
        action, name = Action.PRESENCE, name.removeprefix(names.PRESENCE)
        if access.may(action, name):
            return None
        written = name
    elif is_shared and not _may_share(access, options):
        name = names.QUEUE + options.queue_name
    # Of a pattern a part is not enough, as with a new SUBSCRIBE.
    elif _coverage(peer, access, name) is Coverage.ALL:
        return None
    command = _command(access, peer.login, action.value, written)
    what = f"{peer.login[:80]} {_MAY_NO_LONGER[action]} {written[:80]!r}"
    why = f"the rules or groups have changed: {what} as it did; {command} says why"
    return AccessLost(_REFUSED, why, access.reason(action, _known_as(peer, name)))


def _may_share(access: Access, options: SubscribeOptions) -> bool:
    """Whether a session may take part in the shared subscription that it names, if it names one."""
    return not options.queue_name or access.may(Action.SUBSCRIBE, names.QUEUE + options.queue_name)


def _coverage(peer: Peer, access: Access, name: str) -> Coverage:
    if name.startswith(FREE):
        return Coverage.ALL
    known = _known_as(peer, name)
    if has_wildcard(name):
        return access.reach(known)
    return Coverage.ALL if access.may(Action.SUBSCRIBE, known) else Coverage.NONE


def _known_as(peer: Peer, name: str) -> str:
    """The name by which rules know it: to them all users without a name are one user."""
    if peer.user != peer.login and name.startswith(prefix := names.of_user(peer.user)):
        return names.of_user(peer.login) + name[len(prefix) :]
    return name


_MAY_NOT = {
    Action.SEND: "may not send to",
    Action.SUBSCRIBE: "may not subscribe to",
    Action.ADMIN: "may not administer",
    Action.PRESENCE: "may not see the presence of",
}
_MAY_NO_LONGER = {
    Action.SUBSCRIBE: "may no longer subscribe to",
    Action.PRESENCE: "may no longer see the presence of",
}


def _refusal(
    peer: Peer, access: Access, action: Action, name: str, written: str, why: str = "", much: str = ""
) -> AccessRefused:
    """The error of what is refused.

    `name`: the canonical one that the rules were asked about; empty: they were not.
    """
    command = _command(access, peer.login, action.value, written)
    return AccessRefused(
        _REFUSED,
        f"{why}{peer.login[:80]} {_MAY_NOT[action]} {much}{written[:80]!r}; {command} says why",
        access.reason(action, _known_as(peer, name)) if name else "",
        action.value,
    )


def _command(access: Access, *words: str) -> str:
    """The command that explains a refusal; without the names in it that cannot be typed."""
    typed = shlex.join([*access.options(), *words])
    is_short = len(typed) <= _LONGEST_REMEMBERED and typed.isprintable()
    return f"`gateway acl explain {typed}`" if is_short else "`gateway acl explain`"
