"""Sender ids: the header `user-id`, which the broker itself writes where a policy says `add_user_id`.

A client need not give its name, and cannot give that of another: a `user-id` that is not its login is refused before
this.  So the header is a proof of the sender.  Where a policy asks for it, it is always there, and a message without it
came from a user without a name, or from the server (a function, an operator).
"""

from gateway.codec import Head

from ..core.ports import ANONYMOUS, Peer
from ..model.policy import Policies

USER_ID = "user-id"

# Kept in a head that goes on as it is: itself would be a cycle, and the collector comes by rarely.
_AS_IT_IS = Head("", {})


def with_sender_id(policies: Policies, head: Head, name: str, sender: Peer) -> Head:
    """The head of the messages of a SEND, with its sender where the policies say so.

    `head`: of the sender's own; if it says `user-id`, that has been checked.  `name`: the canonical name of its one
    destination.
    """
    # Kept there, for equal header blocks of one session share one head: a message costs one look.
    stamped = head.stamped
    if stamped is None:
        head.stamped = stamped = _made(policies, head, name, sender)
    return head if stamped is _AS_IT_IS else stamped


def _made(policies: Policies, head: Head, name: str, sender: Peer) -> Head:
    if not policies.adds_user_id(name):
        return _AS_IT_IS
    said = {} if sender.login == ANONYMOUS else {USER_ID: sender.login}
    # Clients of 1.0 trim, and may read names in any case: to them `User-Id` would be the same header.
    alike = [each for each in head.headers if each.strip().lower() == USER_ID]
    if alike == [*said]:
        return _AS_IT_IS
    others = {each: value for each, value in head.headers.items() if each not in alike}
    return Head.of(head.command, {**said, **others})
