"""Sessions and destinations as the admin API lists them."""

from __future__ import annotations

from .queue import Queue
from .session import Session
from .topic import Topic


def of_session(session: Session) -> dict[str, object]:
    """A session: who it is, what it has, and what waits for it."""
    return {
        "id": session.id,
        "login": session.login,
        "version": session.version.name,
        "transport": session.transport,
        "peer": session.peer,
        "connected_at": session.connected_at,
        "subscriptions": len(session.subscriptions),
        "unacknowledged": session.outstanding,
        "transactions": len(session.transactions),
        "pending_octets": session.outbound.size,
        "frames_in": session.frames_in,
    }


def of_destination(target: Queue | Topic) -> dict[str, object]:
    """A destination: its kind, who subscribes, what waits there, and what it keeps for replay."""
    queue = target if isinstance(target, Queue) else None
    return {
        "name": target.name,
        "kind": "topic" if queue is None else "queue",
        "subscriptions": len(target.subscriptions),
        "waiting": 0 if queue is None else queue.waiting,
        "delayed": 0 if queue is None else queue.delayed,
        "unacknowledged": sum([len(each.ledger) for each in target.subscriptions if each.ledger]),
        "octets": 0 if queue is None else queue.octets,
        "log": _of_log(target),
    }


def _of_log(target: Queue | Topic) -> dict[str, int] | None:
    """What a topic keeps for replay: the first and the next seq, and what is between; None: nothing."""
    log = target.log if isinstance(target, Topic) else None
    if log is None:
        return None
    return {"first": log.first, "next": log.next, "messages": len(log), "octets": log.octets}
