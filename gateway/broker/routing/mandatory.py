"""Requests that fail at once: a SEND with `mandatory:true` needs a consumer, and its sender hears if there is none.

It also hears if the message expires before a consumer has taken it, or if its consumers have rejected it for good.

The answer is a message to the SEND's `reply-to`, with `reply-error`, the sender's `correlation-id` and a sentence as
its body.  In AMQP 0-9-1 the flag of that name (basic.publish) has the message returned; STOMP has no frame for that.
"""

from typing import Literal

from gateway.codec import Head

from ..errors import NotAllowed
from ..model import destinations as names
from ..model.message import PreparedSend
from ..queue.queue import Queue
from ..topic.topic import Topic
from .registry import Registry

Failure = Literal["no-consumer", "expired", "rejected"]

_SENTENCES: dict[Failure, str] = {
    "no-consumer": "{} has no consumer",
    "expired": "no consumer of {} has taken the message in time",
    "rejected": "the consumers of {} have rejected the message",
}


def check(sending: PreparedSend) -> None:
    """Raise NotAllowed if the sender could not hear that there is no consumer."""
    for _, head in sending.targets:
        if "reply-to" not in head.headers:
            raise NotAllowed("mandatory without reply-to", "the answer goes there, if there is no consumer")


def has_consumer(registry: Registry, name: str) -> bool:
    """True if a message to that destination has a consumer: browsers and offline durable subscriptions are none."""
    target = registry.find(name)
    if isinstance(target, Queue):
        return any(not each.ended for each in target.subscriptions)
    followed = [target] if isinstance(target, Topic) else []
    if names.is_topic(name):
        followed += registry.patterns.match(name)
    return any(each.subscriptions for each in followed)


def answer(head: Head, why: Failure, reason: str) -> tuple[str, Head, bytes]:
    """The destination, the head and the body of the answer to a SEND that failed.

    `reason`: why the consumer has rejected it, in its words; empty: it gave none.
    """
    headers = head.headers
    told = {"destination": headers["reply-to"], "reply-error": why, "content-type": "text/plain;charset=utf-8"}
    if "correlation-id" in headers:
        told["correlation-id"] = headers["correlation-id"]
    sentence = _SENTENCES[why].format(headers["destination"]) + (f": {reason}" if reason else "")
    return names.canonical(headers["reply-to"]), Head.of("SEND", told), sentence.encode()
