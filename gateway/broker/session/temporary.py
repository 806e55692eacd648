"""Temporary destinations of a session: queues and topics of its own, which go with it.

The session calls one `/temp-queue/NAME`.  Others send to it under the canonical name.
"""

import secrets

from ..core.ports import Peer
from ..errors import NotAllowed
from ..model.destinations import REPLY_QUEUE, REPLY_TOPIC
from ..routing.registry import Registry


class TemporaryDestinations:
    """The temporary destinations of one session, which may have `most`."""

    __slots__ = ("_most", "_names", "_peer", "_registry")

    def __init__(self, peer: Peer, registry: Registry, most: int) -> None:
        self._peer = peer
        self._registry = registry
        self._most = most
        self._names: dict[str, str] = {}

    def canonical(self, destination: str) -> str:
        """The canonical name of one of them, perhaps a new one.  Raises NotAllowed: it has no name, or too many."""
        # The same name each time: `reply-to` has told it to others.
        name = self._names.get(destination)
        if name is not None:
            return name
        kind, _, rest = destination[1:].partition("/")
        if not rest:
            raise NotAllowed("destination without a name", f"{destination!r} needs a name after the last slash")
        if len(self._names) >= self._most:
            raise NotAllowed("too many temporary destinations", f"a session may have {self._most} (max_subscriptions)")
        # It cannot be guessed; that of `/session/events` is never told, so that no other session can send there.
        name = (REPLY_QUEUE if kind == "temp-queue" else REPLY_TOPIC) + secrets.token_hex(12)
        self._names[destination] = name
        # As long as it stands there, a SEND to that name makes the queue (`Registry.is_gone`).
        self._registry.temporaries[name] = self._peer
        return name

    def known(self, destination: str) -> str | None:
        """The canonical name of one that is there already."""
        return self._names.get(destination)

    def release(self, destination: str) -> None:
        """End one of them when its last subscription has ended; the next of that name is another."""
        registry = self._registry
        name = self._names.get(destination)
        if name is not None and (name not in registry.destinations or not registry.destinations[name].subscriptions):
            del self._names[destination]
            registry.forget_temporary(name)

    def forget(self) -> None:
        """End all of them."""
        for name in self._names.values():
            self._registry.forget_temporary(name)
        self._names.clear()
