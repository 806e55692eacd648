"""Registry of destinations: which there are, and how they come and go.

A destination is created by the first SEND or SUBSCRIBE, and goes when it has no subscribers and no messages.
"""

import dataclasses
from functools import partial

from ..core.arguments_check import ArgumentsNotice
from ..core.context import Context
from ..core.ports import Peer
from ..errors import NotAllowed
from ..model import destinations as names
from ..model.changes import Container
from ..model.patterns import has_wildcard
from ..model.policy import Kept, Policies, QueueArguments
from ..model.trie import PatternTrie
from ..queue.durable import QueueStorage
from ..queue.queue import Queue
from ..topic.durable_subscriptions import DurableSubscriptions
from ..topic.stream import Stream, Streams
from ..topic.topic import Topic


class Registry:
    """All destinations, by canonical name."""

    def __init__(self, context: Context, policies: Policies) -> None:
        self.destinations: dict[str, Queue | Topic] = {}  # those that clients name
        # Those that clients cannot name: of users, functions and durable subscriptions.  Apart, so that `publish` never
        # finds one: it looks up what the client wrote.
        self.hidden: dict[str, Queue | Topic] = {}
        self.patterns: PatternTrie[Topic] = PatternTrie()  # the topics of subscriptions with wildcards
        self.has_patterns = False  # asked for each message to a topic, for less than a call of the trie
        # A message to a topic may concern patterns, or policies that hide it: asked instead, where both count.
        self.fans_out = policies.shows_stored
        # Those that outlive their sessions, or are shared.
        self.durable_subscriptions = DurableSubscriptions(
            context, self._queue_of_durable, lambda name: self.hidden.pop(name, None)
        )
        self.streams = Streams(context)  # the messages that topics keep for replay
        self.temporaries: dict[str, Peer] = {}  # canonical name of each temporary destination -> its session
        self._context = context
        self._policies = policies

    def find(self, name: str) -> Queue | Topic | None:
        """The destination of that canonical name, if there is one."""
        return self.table(name).get(name)

    def topic(self, name: str, *, checked: bool = True) -> Topic:
        """The topic, or pattern, of that name, perhaps a new one.  Raises NotAllowed: too many, if `checked`."""
        is_pattern = has_wildcard(name)
        # A pattern stands in the trie alone: no SEND goes to it, and `publish` looks up each SEND in the table.
        found = self.patterns.get(name) if is_pattern else self.table(name).get(name)
        if found is None:
            if checked:
                self.check_room(1)
            policy = self._policies.find(name)
            found = Topic(self._context, name, policy, None if is_pattern else self.streams.of(name, policy))
            if is_pattern:
                self.patterns.add(name, found)
                self.has_patterns = self.fans_out = True
            else:
                self.table(name)[name] = found
        assert isinstance(found, Topic)  # names of queues and topics differ
        return found

    def _queue_of_durable(self, name: str, topic: Topic, lasts: bool) -> Queue:
        """The queue of a new durable or shared subscription."""
        # Policies name the topic.  A shared subscription that is not durable goes with its last consumer.
        policy = dataclasses.replace(topic.policy, auto_delete=not lasts)
        queue = self.hidden[name] = Queue(self._context, name, policy)
        if lasts and policy.durable is not False:
            self._store(queue, keeps_all=True)
        queue.start_idle_timer()
        return queue

    def create_queue(self, name: str, arguments: QueueArguments | None = None, sender: str = "") -> Queue:
        """Make a queue, with the queue arguments in the frame that creates it; `sender`: id of its session."""
        queue = self.table(name)[name] = Queue(self._context, name, self._policies.find(name))
        # A temporary queue goes with its session, so a restart must not bring it back.
        if not name.startswith(names.REPLY_QUEUE):
            self._store(queue)
        if arguments is not None and not name.startswith(names.HIDDEN):
            before = queue.policy
            self._apply_arguments(queue, arguments)
            self._tell(queue, before.changes_of(queue.policy), sender, in_force=True)
        # Behind the arguments, which may set `idle_timeout`.
        queue.start_idle_timer()
        return queue

    def _store(self, queue: Queue, *, keeps_all: bool = False) -> None:
        """Have the messages of a queue stored, if there is a store; `keeps_all`: it is a durable subscription's."""
        storage = self._context.storage
        if storage is None:
            return
        durable = queue.policy.durable
        # A client that subscribes durably wants the messages that come while it is away, also after a kill; senders to
        # a topic do not know of it, and rarely say `persistent`.
        by_default = keeps_all and durable is None and queue.policy.subscriptions_keep is Kept.DURABLE
        queue.storage = QueueStorage(
            self._context, queue, storage, True if by_default else durable, unless_refused=by_default
        )

    def restore(self, place: Container) -> Queue:
        """Make a queue, or durable subscription, that the store holds, and take its rows over."""
        queue = self.table(place.name).get(place.name)
        # It may be there: a store may hold two places of one name, where a queue went and came again.
        if queue is None and place.kind == "subscription":
            queue = self.durable_subscriptions.restore(place, partial(self.topic, checked=False))
        elif queue is None:
            queue = self.create_queue(place.name)
        assert isinstance(queue, Queue)  # names of queues and topics differ
        # The policy may be another one now, and keep no new messages in the store.
        if queue.storage is None:
            self._store(queue)
        assert queue.storage is not None  # the store holds the queue
        queue.storage.recover(place)
        arguments = queue.storage.arguments
        # Those of a durable subscription are applied where it is restored, to the policy of its topic.
        if place.kind == "queue" and arguments is not None and not queue.of_client:
            self._apply_arguments(queue, arguments)
        return queue

    def keeps_stream(self, name: str) -> bool:
        """True if a topic of that name keeps its messages for replay."""
        return self._policies.keeps_stream(name) and not name.startswith(names.REPLY_TOPIC)

    def restore_log(self, place: Container) -> Stream | None:
        """The stream of a topic that the store holds; None: its policy keeps none any more, or not in the store."""
        # It stays there as it is: a slip in the operator's file must not cost messages.
        if not self.keeps_stream(place.name) or self._policies.find(place.name).durable is False:
            self.streams.leave_unused(place)
            return None
        topic = self.topic(place.name, checked=False)
        assert topic.stream is not None  # the policy says so
        topic.stream.recover(place)
        return topic.stream

    def is_gone(self, name: str) -> bool:
        """True if it is the temporary queue of a session that has ended: no client will ever read it."""
        return name.startswith(names.REPLY_QUEUE) and name not in self.temporaries

    def tell_ignored(self, queue: Queue, arguments: QueueArguments | None, sender: str) -> None:
        """Log that a client's arguments for a queue that is there are not applied."""
        # Others have messages there, and a narrower queue could cost them what was confirmed.  The frame is not
        # refused: programs written for RabbitMQ send arguments with each frame, and there the first counts.
        if arguments is None or queue.name.startswith(names.HIDDEN):
            return
        self._tell(queue, queue.policy.changes_of(arguments.applied_to(queue.policy)), sender, in_force=False)

    def _apply_arguments(self, queue: Queue, arguments: QueueArguments) -> None:
        """Apply a client's arguments to a queue that comes into being with them."""
        queue.apply_arguments(arguments)
        if queue.storage is not None:
            queue.storage.keep_arguments(arguments)

    def _tell(self, queue: Queue, changes: dict[str, object], sender: str, *, in_force: bool) -> None:
        """Tell the effect of a client's arguments; those for a temporary queue concern that client alone."""
        if changes and not queue.name.startswith(names.REPLY_QUEUE):
            session = self._context.sessions.get(sender)
            self._context.on_arguments(
                ArgumentsNotice(queue.name, changes, sender, session.login if session else "", in_force=in_force)
            )

    def home_of(self, queue: Queue) -> Queue | None:
        """The queue that messages of a queue come back to; None: no client can ever read them."""
        # A private queue stands in no table: its one subscription is all that can read it.
        if queue.private:
            return queue if queue.subscriptions else None
        if self.is_gone(queue.name) or (queue.filled_by_topic and self.durable_subscriptions.of(queue) is None):
            return None
        table = self.table(queue.name)
        home = table.get(queue.name)
        # It was forgotten meanwhile, and has no successor.
        if home is None:
            home = table[queue.name] = queue
            queue.start_idle_timer()
        assert isinstance(home, Queue)  # names of queues and topics differ
        return home

    def forget_if_idle(self, target: Queue | Topic) -> None:
        """Drop a destination without subscribers and messages."""
        if not target.is_idle:
            return
        table = self.table(target.name)
        # Another one of that name may have come since.
        if table.get(target.name) is target:
            del table[target.name]
            if isinstance(target, Topic):
                self._context.tallies.end(target.tally)
                # Its stream is empty, and still knows what it has lost: a reader that comes back is told of the gap.
                if target.stream is not None:
                    self.streams.rest(target.stream)
            else:
                target.end()
                if target.storage is not None:
                    target.storage.forget()
                durable = self.durable_subscriptions.of(target)
                if durable is not None:
                    self.durable_subscriptions.forget(durable)
        elif isinstance(target, Topic) and self.patterns.get(target.name) is target:
            self._context.tallies.end(target.tally)
            self.patterns.remove(target.name)
            self.has_patterns = len(self.patterns) > 0
            self.fans_out = self.has_patterns or self._policies.shows_stored

    def table(self, name: str) -> dict[str, Queue | Topic]:
        return self.hidden if name.startswith(names.HIDDEN) else self.destinations

    def forget_temporary(self, name: str) -> None:
        """Drop a session's temporary destination, and what waits there."""
        # First: from now on no message that a consumer gives back finds a home here (`home_of`).
        self.temporaries.pop(name, None)
        target = self.destinations.get(name)
        if isinstance(target, Queue):
            target.purge()
            self.forget_if_idle(target)

    def count(self) -> int:
        """The number of destinations."""
        return len(self.destinations) + len(self.hidden) + len(self.patterns)

    def check_room(self, new: int) -> None:
        limit = self._context.quotas.max_destinations
        if self.count() + new > limit:
            raise NotAllowed("too many destinations", f"the server may have {limit} (max_destinations)")
