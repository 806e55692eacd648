"""Queue arguments of clients, and whether they are allowed.

A client's queue arguments change the queue for all its users.  Where the operator does not want that, such a frame is
refused, and not carried out without its arguments.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import NotAllowed
from ..headers.send import ARGUMENTS
from ..model.destinations import is_temporary, is_topic
from ..model.policy import Policies, QueueArguments
from .authorization import check_admin, check_dead_letters
from .ports import Peer

_HEADERS = {each.field: each.name for row in ARGUMENTS for each in row.spellings}
_HEADERS["dead_letter"] = _HEADERS["dead_letter_prefix"]


@dataclass(frozen=True, slots=True)
class ArgumentsNotice:
    """The effect of a client's queue arguments, for the log."""

    queue: str  # its canonical name
    values: Mapping[str, object]  # keys of the policy that they change, or would change, and their values
    session: str  # the id of the client's; it may be gone, as with a delayed SEND
    login: str  # of that session; empty: it is gone
    in_force: bool  # they came into force; False: the queue was there already, and stays as it is


class ArgumentsCheck:
    """Decides on the queue arguments of clients.  `wanted`: the setting `client_queue_arguments`."""

    def __init__(self, policies: Policies, wanted: bool) -> None:
        self._policies = policies
        self._wanted = wanted

    def check(self, arguments: QueueArguments | None, name: str, destination: str, peer: Peer) -> None:
        """Refuse a client's queue arguments.  Those for a topic or a temporary queue concern that client alone.

        Args:
            name: the canonical one.
            destination: the queue's name as the client wrote it.
            peer: the client's session.

        Raises:
            NotAllowed: they would change the queue, and are not wanted, or the rules do not allow it.
        """
        if arguments is None or (self._wanted and peer.access is None):
            return
        check_dead_letters(peer, arguments)
        if is_topic(name) or is_temporary(destination):
            return
        # What the policy has already changes nothing: many programs say `auto-delete:false` always.
        policy = self._policies.find(name)
        if arguments.applied_to(policy) == policy:
            return
        if self._wanted:
            check_admin(peer, name, destination)
            return
        given = [field.name for field in dataclasses.fields(arguments) if getattr(arguments, field.name) is not None]
        raise NotAllowed(
            "queue arguments are not for clients here",
            f"{', '.join(_HEADERS[field] for field in given)} would change {destination[:80]!r} for all users; leave "
            "that out, and let the operator write a [[policy]] (client_queue_arguments)",
        )
