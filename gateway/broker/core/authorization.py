"""Whether a client may do what its frame asks, where the operator has written rules; elsewhere everything goes.

    SEND              `send` at each destination that it names, before anything of it is carried out
    reply-to          `subscribe` and `send`: who answers does it with rights of his own, and must not lend them
    SUBSCRIBE         `subscribe`; of what a pattern matches, each message is looked at where not all of it is allowed
    durable, shared   `subscribe` at all that the pattern matches: they gather when nobody is there to be looked at
    x-queue-name      `subscribe` also at the queue of that name: whoever names it takes messages from the others
    queue arguments   `admin` where they change the queue for everybody, `send` where dead letters are to go

Free are a session's own temporary destinations, and to send to those of others: who knows such a name was told it.
Names that are looked for in the rules may have so many words only as those of topics, or the search is slow.
What was accepted stays accepted, in transactions and when it is delayed: rules that change later do not undo it.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import AccessLost, AccessRefused, NotAllowed
from ..model import destinations as names
from ..model.access import Access, Action, Coverage
from ..model.patterns import check_words, has_wildcard

if TYPE_CHECKING:
    from ..broker import Broker
    from ..model.options import SubscribeOptions
    from ..model.policy import ClientArguments
    from ..queue.subscription import Subscription
    from ..session.session import Session

FREE = (names.REPLY_QUEUE, names.REPLY_TOPIC, "/session/")
"""What names start with that nobody is asked about: temporary destinations, and what a session tells of itself."""

# What is remembered of one user: beyond that it is found out again.
_MOST_REMEMBERED = 1_000
_LONGEST_REMEMBERED = 200
# Sessions, and subscriptions of theirs, that are looked at in one turn when the rules have changed: some 4 ms, or one
# session that has more.
_LOOKS_PER_TURN = 500

_REFUSED = "access refused"


class PatternFilter:
    """What one subscription may see of what its pattern matches."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def shows(self, name: str) -> bool:
        """Whether it may see what is sent to the destination of that canonical name."""
        access = self._session.access
        return access is None or access.may(Action.SUBSCRIBE, _known_as(self._session, name))


def is_known(access: Access, headers: Mapping[str, str]) -> bool:
    """Whether a SEND that asks for nothing special was allowed before."""
    is_sendable = headers["destination"] in access.sendable
    return is_sendable and ("reply-to" not in headers or headers["reply-to"] in access.answerable)


def remember(access: Access, headers: Mapping[str, str]) -> None:
    """Such a SEND was allowed: the next one need not be looked at."""
    _add(access.sendable, headers["destination"])
    reply_to = headers.get("reply-to")
    # Of mail it is not the same for all who share the access: those without a name have each their own.
    if reply_to is not None and names.USER not in reply_to:
        _add(access.answerable, reply_to)


def _add(known: set[str], text: str) -> None:
    if len(text) <= _LONGEST_REMEMBERED:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        known.add(text)


def check_send(session: Session, name: str, written: str) -> None:
    """Refuse a SEND to where the session may not send.

    Args:
        name: the canonical one.
        written: the same as the client wrote it; so in the checks below.

    Raises:
        NotAllowed: it may not.
    """
    access = session.access
    if access is None or name.startswith(FREE):
        return
    check_words(name, written)
    if not access.may(Action.SEND, _known_as(session, name)):
        raise _refusal(session, access, Action.SEND, name, written)


def check_reply_to(session: Session, headers: Mapping[str, str]) -> None:
    """Refuse a `reply-to` by which others would send, or a function, where the session itself has no business.

    What is no destination of this server passes: some programs write other things there.

    Raises:
        NotAllowed: it names a destination that the session may not subscribe to, or not send to; or too many.
    """
    access = session.access
    if access is None or "reply-to" not in headers:
        return
    for part in names.split(headers["reply-to"]):
        try:
            name = names.canonical(part)
        except NotAllowed:
            continue
        if name.startswith(FREE):
            continue
        check_words(name, part)
        known = _known_as(session, name)
        is_own = name.startswith(names.mail_of(session.user))
        if name.startswith(names.USER) and not is_own:
            raise _refusal(session, access, Action.SUBSCRIBE, "", part, "reply-to names somebody else's mail: ")
        for action in (Action.SUBSCRIBE,) if is_own else (Action.SUBSCRIBE, Action.SEND):
            if not access.may(action, known):
                raise _refusal(session, access, action, name, part, "reply-to: ")


def check_dead_letters(session: Session, hints: ClientArguments | None) -> None:
    """Refuse queue arguments by which dead letters would come to where the session may not send.

    Raises:
        NotAllowed: it may not send there.
    """
    if hints is not None and hints.dead_letter is not None:
        check_send(session, hints.dead_letter, hints.dead_letter)


def check_admin(session: Session, name: str, written: str) -> None:
    """Refuse to change a queue for everybody.

    Raises:
        NotAllowed: the session may not.
    """
    access = session.access
    if access is not None and not access.may(Action.ADMIN, name):
        raise _refusal(session, access, Action.ADMIN, name, written, "queue arguments change it for everybody: ")


def check_subscribe(subscription: Subscription, name: str) -> None:
    """Refuse a SUBSCRIBE to where the session may not; or see to it that only what it may see is shown.

    Args:
        name: the canonical name, or pattern.

    Raises:
        NotAllowed: it may not subscribe there, or not in that way.
    """
    session, options = subscription.session, subscription.options
    access = session.access
    assert access is not None  # else nobody asks
    check_words(name, subscription.destination)
    reach = _reach(session, access, name)
    if reach is Coverage.NONE:
        raise _refusal(session, access, Action.SUBSCRIBE, name, subscription.destination)
    check_dead_letters(session, options.queue_arguments)
    if names.is_topic(name):
        shared = names.QUEUE + options.queue_name
        check_words(shared, options.queue_name)
        if not _may_share(access, options):
            raise _refusal(session, access, Action.SUBSCRIBE, shared, shared, "x-queue-name: ")
        if reach is Coverage.SOME and (options.durable or options.durable_name or options.queue_name):
            raise _refusal(
                session,
                access,
                Action.SUBSCRIBE,
                name,
                subscription.destination,
                "a durable or shared subscription needs all that its pattern matches: ",
                "all of ",
            )
    subscription.pattern_filter = PatternFilter(session) if reach is Coverage.SOME else None


def recheck(broker: Broker) -> None:
    """The rules have changed: sessions with a subscription that they no longer allow are ended, in turns."""
    sessions = deque(broker.sessions.values())

    def look() -> None:
        looks = 0
        while sessions and looks < _LOOKS_PER_TURN:
            session = sessions.popleft()
            looks += 1 + len(session.subscriptions)
            recheck_session(session)
        if sessions:
            broker.scheduler.later(look)

    look()


def recheck_session(session: Session) -> bool:
    """Look at what a session is subscribed to; False: it ends, because that is not allowed any more.

    A subscription that saw all and may see only some ends, too: the client comes back, and is told what it may have.
    """
    access = session.access
    if access is None:
        return True
    for subscription in session.subscriptions.values():
        name = _lost(subscription, access)
        if name is not None:
            destination = subscription.destination
            command = _command(access, session.login, Action.SUBSCRIBE.value, destination)
            what = f"{session.login[:80]} may no longer subscribe to {destination[:80]!r}"
            why = f"the rules or groups have changed: {what} as it did; {command} says why"
            session.end(AccessLost(_REFUSED, why, access.reason(Action.SUBSCRIBE, _known_as(session, name))))
            return False
    return True


def _lost(subscription: Subscription, access: Access) -> str | None:
    """The canonical name, or pattern, that a subscription may no longer have as it did; None: it may stay."""
    queue, topic = subscription.queue, subscription.topic
    if topic is not None:
        name = topic.name
    else:
        assert queue is not None  # no topic, so a queue
        name = queue.name if queue.feed is None else queue.feed.topic.name
    if queue is not None and queue.feed is not None and not _may_share(access, subscription.options):
        return names.QUEUE + subscription.options.queue_name
    least = Coverage.ALL if subscription.pattern_filter is None else Coverage.SOME
    return None if _reach(subscription.session, access, name) in (Coverage.ALL, least) else name


def _may_share(access: Access, options: SubscribeOptions) -> bool:
    """Whether a session may take part in the shared subscription that it names, if it names one."""
    return not options.queue_name or access.may(Action.SUBSCRIBE, names.QUEUE + options.queue_name)


def _reach(session: Session, access: Access, name: str) -> Coverage:
    if name.startswith(FREE):
        return Coverage.ALL
    known = _known_as(session, name)
    if has_wildcard(name):
        return access.reach(known)
    return Coverage.ALL if access.may(Action.SUBSCRIBE, known) else Coverage.NONE


def _known_as(session: Session, name: str) -> str:
    """The name by which rules know it: to them the mail of all who have no name is that of one user."""
    if session.user != session.login and name.startswith(mail := names.mail_of(session.user)):
        return names.mail_of(session.login) + name[len(mail) :]
    return name


_MAY_NOT = {
    Action.SEND: "may not send to",
    Action.SUBSCRIBE: "may not subscribe to",
    Action.ADMIN: "may not administer",
}


def _refusal(
    session: Session, access: Access, action: Action, name: str, written: str, why: str = "", much: str = ""
) -> AccessRefused:
    """The error of what is refused.

    Args:
        name: the canonical one that the rules were asked about; empty: they were not.
    """
    session.broker.counters.forbidden[action.value] += 1
    command = _command(access, session.login, action.value, written)
    return AccessRefused(
        _REFUSED,
        f"{why}{session.login[:80]} {_MAY_NOT[action]} {much}{written[:80]!r}; {command} says why",
        access.reason(action, _known_as(session, name)) if name else "",
    )


def _command(access: Access, *words: str) -> str:
    """The command that explains a refusal; without its words where nobody could type them."""
    typed = shlex.join([*access.options(), *words])
    is_short = len(typed) <= _LONGEST_REMEMBERED and typed.isprintable()
    return f"`gateway acl explain {typed}`" if is_short else "`gateway acl explain`"
