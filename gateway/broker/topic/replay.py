"""Replay: a subscriber gets the messages that it missed from the streams, and then those that come live.

    SUBSCRIBE with from-seq, or resume  ->  a `StreamReader` reads the streams, as fast as the client reads
    it has come to their end            ->  the subscription joins the topic

The first MESSAGE behind a gap, of messages that the streams no longer have, has `gap:true` and `first-seq`.
"""

from ..core.context import Context
from ..core.ports import ANONYMOUS
from ..errors import NotAllowed
from ..model.destinations import REPLY_TOPIC, USER
from ..model.options import Origin
from ..model.patterns import has_wildcard
from ..queue.subscription import ExtraHeaders, Subscription
from .durable_subscriptions import SubscriptionName
from .offsets import Offsets
from .stream import Streams
from .stream_reader import StreamReader
from .topic import Topic


class Replay:
    """Begins subscriptions in the past; `offsets`: where those with a name have come to."""

    def __init__(self, context: Context, streams: Streams) -> None:
        self.offsets = Offsets(context)
        self._context = context
        self._streams = streams

    def check(
        self, name: str, subscription: Subscription, durable: SubscriptionName | None, *, has_stream: bool
    ) -> None:
        """Refuse what cannot be replayed; `name`: of the topic, or a pattern.

        Raises NotAllowed: there is no stream, or the frame asks for two things that do not go together.
        """
        options = subscription.options
        start, shown = options.start, subscription.destination[:80]
        # ActiveMQ's retroactive consumers ask for the past where there is one: that is never refused.
        begins = start is not None and not start.is_optional and start.origin is not Origin.NEXT
        if not (begins or options.resume or options.include_seq):
            return
        if durable is not None:
            raise NotAllowed(
                "a durable subscription has a queue of its own",
                "it keeps what its client misses; leave out from-seq, resume and include-seq, or what makes it durable",
            )
        # A pattern needs no stream now: a topic that keeps one may still come.
        if has_wildcard(name):
            if start is not None and start.origin is Origin.SEQ:
                raise NotAllowed(
                    "from-seq is for one topic",
                    f"{shown!r} is a pattern, and each topic has numbers of its own; 0, -1, timestamp=S, or resume do",
                )
        elif name.startswith(REPLY_TOPIC):
            raise NotAllowed(
                "a temporary topic keeps no stream", f"{shown!r} goes with its session, and all that was sent"
            )
        elif not has_stream:
            raise NotAllowed(
                "the topic keeps no stream",
                f"{shown!r} cannot be replayed: the server's policy for it sets none of log_messages, log_bytes and "
                "log_age",
            )
        if options.resume and name.startswith(USER) and subscription.peer.login == ANONYMOUS:
            raise NotAllowed(
                "resume of a user destination needs a login",
                "without one, the next session is another user; send login in CONNECT",
            )
        if options.resume and subscription.ledger is None:
            raise NotAllowed(
                "resume needs acknowledgements",
                "with ack:auto the server does not learn what has arrived; say ack:client",
            )

    def check_queue(self, subscription: Subscription) -> None:
        """Refuse replay of a queue, and see to the numbers of its messages.

        Raises NotAllowed: a queue is not replayed.
        """
        options = subscription.options
        start = options.start
        if options.resume or (start is not None and start.origin is not Origin.NEXT and not start.is_optional):
            raise NotAllowed(
                "replay is for topics",
                f"{subscription.destination[:80]!r} is a queue: what is consumed is gone; a browser reads what waits",
            )
        if options.include_seq:
            subscription.extra_headers = ExtraHeaders([options.include_seq], numbered=False)

    def begin(self, topic: Topic, subscription: Subscription) -> bool:
        """Begin in the past, if that was asked for; False: the subscription is still to join its topic.

        Raises NotAllowed: there are too many names to resume by.
        """
        options = subscription.options
        start = options.start
        if start is None and not options.resume and not options.include_seq:
            return False
        # A pattern is read all the same, for its topics may have streams.
        if start is not None and start.is_optional and topic.stream is None and not has_wildcard(topic.name):
            start = None
        # RabbitMQ writes each message's number into the header by which the client asked, `x-stream-offset`.
        notes = ExtraHeaders(["" if start is None else start.header, options.include_seq], numbered=True)
        if notes:
            subscription.extra_headers = notes
        offset = self.offsets.find(subscription, topic.name) if options.resume else None
        is_new = offset is None and (start is None or start.origin is Origin.NEXT)
        # Also for a new name: its position is where the offset begins.
        reader = StreamReader(self._context, self._streams, self.offsets, topic, subscription)
        # What the topic holds back comes live, and counts as not acknowledged until it is.
        if is_new and topic.first_unseen:
            reader.position = topic.first_unseen - 1
        # A position under a name goes before `from-seq`, which is for the first time.
        if offset is not None:
            reader.begin_behind(offset.position)
        elif start is not None and not is_new:
            reader.begin_at(start)
        # Before it joins: if there are too many names, nothing is to be undone.
        if options.resume:
            self.offsets.hold(subscription, topic, reader)
            # An empty stream, too: the next process must know that nothing was lost.
            if topic.stream is not None:
                topic.stream.remember()
        if is_new:
            return False
        topic.join(subscription, late=reader)
        subscription.reader = reader
        self._context.when_all_seen(reader.start)
        return True
