"""Lies of a gateway about its edges: patches that break one promise each, to see that the test notices.

blaming      what the clients of a lost edge had counts as failed
one-for-all  with an edge, the clients of all others are ended
stuck        when an edge is lost, the clients of all others wait
swallowing   what the clients of a lost edge had counts as acknowledged
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from gateway.codec import Frame, Head, ProtocolError
from gateway.edges.primary import PrimaryLink
from gateway.edges.remote import RemoteConnection

LIES = ("blaming", "one-for-all", "stuck", "swallowing")

# Seconds, more than a witness waits.
_STUCK = 8.0


def tell(lie: str) -> None:
    """Break one promise."""
    leave = RemoteConnection.leave
    if lie == "blaming":
        RemoteConnection.leave = lambda self, not_taken, **_: leave(self, not_taken)  # type: ignore[assignment,method-assign]
    elif lie == "one-for-all":
        _patch_loss(_end_all_clients)
    elif lie == "stuck":
        _patch_loss(lambda _: time.sleep(_STUCK))
    else:

        def swallow(self: RemoteConnection, not_taken: int, *, has_failed: bool = True) -> None:
            session = self.session
            if session is not None and not has_failed:
                for subscription in session.subscriptions.values():
                    for handle in list(subscription.ledger or ()):
                        with suppress(ProtocolError):  # the one before has covered it, or a transaction has it
                            session.handle(Frame(Head("ACK", {"id": handle}), b""))
            leave(self, not_taken, has_failed=has_failed)

        RemoteConnection.leave = swallow  # type: ignore[method-assign]


def _patch_loss(before: Callable[[PrimaryLink], None]) -> None:
    end_all = PrimaryLink._end_all

    async def patched(self: PrimaryLink) -> None:
        before(self)
        await end_all(self)

    PrimaryLink._end_all = patched  # type: ignore[method-assign]


def _end_all_clients(link: PrimaryLink) -> None:
    server = link._server
    for connection in server.connections.values():
        connection.end(server.shutting_down())
