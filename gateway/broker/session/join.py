"""Joining of a destination by a new subscription: a queue, a topic, or a function of the application.

The destination header becomes a name; the rules allow or refuse it; the subscription joins the queue or topic.
"""

import secrets

from gateway.codec import Head

from ..core import authorization
from ..core.context import Context
from ..core.ports import INTERNAL
from ..errors import NoFunction, NotAllowed
from ..model import destinations as names
from ..model.message import PreparedSend
from ..model.options import PLAIN
from ..queue.queue import Queue
from ..queue.subscription import Subscription
from ..routing.router import Router
from ..topic import durable_subscriptions


def join(context: Context, router: Router, subscription: Subscription) -> None:
    """Add a subscription to its destination, perhaps a new one.  Raises NotAllowed: no such kind, or a limit."""
    peer, destination = subscription.peer, subscription.destination
    if names.is_temporary(destination):
        name = peer.temporaries.canonical(destination)
        names.check_type(destination, name, subscription.options.multicast)
    # The queues of functions have names that clients cannot write; the sessions that run the functions consume them.
    elif destination.startswith(names.HANDLERS) and peer.transport == INTERNAL:
        name = destination
    else:
        name = names.canonical_for(peer.user, destination, subscription.options.multicast)
    # Before anything is looked up, so that a refusal does not tell what is there.
    if peer.access is not None:
        authorization.check_subscribe(peer, name, destination, subscription.options)
    if name.startswith(names.APP):
        _ask_function(context, router, name, subscription)
    elif names.is_presence(name):
        _watch(router, name, subscription)
    elif names.is_topic(name):
        _subscribe_topic(router, name, subscription)
        router.presence.enter(name, subscription)
    else:
        _subscribe_queue(router, name, subscription)


def _ask_function(context: Context, router: Router, name: str, subscription: Subscription) -> None:
    """Ask a function: one MESSAGE comes, with its result."""
    peer, application = subscription.peer, context.application
    # Else a client could fill the queue of a slow function by SUBSCRIBE and UNSUBSCRIBE.
    context.memory.check()
    queue = application.queue_of_subscribe(name) if application is not None else None
    if queue is None:
        raise NoFunction(name)
    # It cannot be guessed, so that no other session sends a result of its own there.
    reply_to = names.REPLY_TOPIC + secrets.token_hex(12)
    # First the subscription, then the request: the result must find its subscriber.
    _subscribe_topic(router, reply_to, subscription)
    asked = {"destination": name, "reply-to": reply_to, "user-id": peer.user, "session": peer.id}
    router.send(PreparedSend([(queue, Head.of("SEND", asked))], b"", PLAIN, peer.id, 0.0))


def _watch(router: Router, name: str, subscription: Subscription) -> None:
    """Tell a subscription of the users of a topic."""
    options = subscription.options
    lasts = options.durable or options.durable_name or options.queue_name or options.resume
    if lasts or options.browser or options.start is not None or options.include_seq:
        raise NotAllowed(
            "presence has no past",
            f"{subscription.destination[:80]!r} tells of the users that are there now: leave out what asks for a "
            "durable or shared subscription, a browser or replay",
        )
    router.presence.check(name)
    watched = router.registry.topic(name)
    watched.join(subscription)
    router.presence.show(watched, subscription)


def _subscribe_topic(router: Router, name: str, subscription: Subscription) -> None:
    options = subscription.options
    if options.browser:
        raise NotAllowed(
            "browsers are for queues",
            f"{subscription.destination[:80]!r} is a topic; from-seq:0 replays its stream, if it has one",
        )
    durable = durable_subscriptions.name_of(options, subscription.peer, subscription.id, name)
    if durable is not None and name.startswith(names.REPLY_TOPIC):
        raise NotAllowed(
            "a temporary topic has no durable subscriptions",
            f"{subscription.destination[:80]!r} goes with its session; leave out what asks for a durable one",
        )
    registry, replay = router.registry, router.replay
    # It may be new; then it goes with a SUBSCRIBE that is refused.
    topic = registry.topic(name)
    try:
        replay.check(name, subscription, durable, has_stream=topic.stream is not None)
        # Retained messages were in the stream once, and may be older than those there now.
        if durable is None and replay.begin(topic, subscription):
            return
    except NotAllowed:
        registry.forget_if_idle(topic)
        raise
    if durable is None:
        topic.join(subscription)
    # One that was there knows what the topic retains.
    elif not registry.durable_subscriptions.subscribe(durable, topic, subscription):
        return
    router.retained.show(name, subscription, topic)


def _subscribe_queue(router: Router, name: str, subscription: Subscription) -> None:
    options = subscription.options
    # A message that the only consumer of its queue may not have would wait for ever.
    if options.no_local:
        raise NotAllowed("no-local is for topics", f"{subscription.destination[:80]!r} is a queue; leave no-local out")
    peer, registry = subscription.peer, router.registry
    router.replay.check_queue(subscription)
    router.arguments.check(options.queue_arguments, name, subscription.destination, peer)
    found = registry.find(name)
    if found is None:
        registry.check_room(1)
        found = registry.create_queue(name, options.queue_arguments, peer.id)
    # Arguments count when their frame creates the queue, as in RabbitMQ: others rely on the queue as it is.
    else:
        assert isinstance(found, Queue)  # names of queues and topics differ
        registry.tell_ignored(found, options.queue_arguments, peer.id)
    if options.browser:
        found.browse(subscription)
    else:
        found.join(subscription)
