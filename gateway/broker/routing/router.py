"""Router: the way of a SEND to its destinations.

    prepare   names are resolved and everything is checked that could refuse the SEND: nothing has happened so far
    send      now, or, in a transaction, at COMMIT: duplicates stop here, delayed messages wait here
    route     to the queue; or to the topic and all patterns that match its name

A SEND that asks for nothing special to a destination that is there goes the short way: `publish` does all three at
once.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from gateway.codec import Head

from ..core import authorization
from ..core.arguments_check import ArgumentsCheck
from ..core.context import Context
from ..core.ports import Peer
from ..errors import NoFunction, NotAllowed
from ..model import destinations as names
from ..model.message import Message, PreparedSend, Wire
from ..model.options import PLAIN, Retain, SendOptions
from ..model.policy import Policies, Visible
from ..queue.queue import Queue
from ..topic.presence import TopicPresence
from ..topic.replay import Replay
from ..topic.retained import Retained
from ..topic.topic import Topic
from . import mandatory
from .body_check import BodyCheck
from .dedup import DedupIds, digest
from .registry import Registry
from .scheduled import ScheduledSends
from .sender_id import with_sender_id


class Router:
    """Messages on their way to their destinations."""

    def __init__(self, context: Context, registry: Registry, policies: Policies) -> None:
        quotas = context.quotas
        self.registry = registry  # which destinations there are
        self.retained = Retained(context, policies)  # the last message of each topic that keeps one
        self.delayed = ScheduledSends(context, self._arrive, self._is_stored)  # messages that wait for their time
        self._context = context
        self._destinations = registry.destinations
        self._patterns = registry.patterns
        self.policies = policies
        self._stamps = partial(with_sender_id, policies) if policies.add_user_ids else None
        self._bodies = BodyCheck(policies) if policies.checks_bodies else None
        self.arguments = ArgumentsCheck(policies, quotas.client_queue_arguments)  # checks those of clients
        self._dedup = DedupIds(quotas.dedup_window, quotas.max_dedup_ids)
        self.replay = Replay(context, registry.streams)  # begins subscriptions in the past
        self.presence = TopicPresence(context, policies)  # the users of topics

    @property
    def number(self) -> int:
        """The number of the last message."""
        return self._context.last_number

    # SEND

    def publish(self, head: Head, body: bytes, destination: str, sender: Peer, options: SendOptions = PLAIN) -> None:
        """Route a message that asks for nothing special, but perhaps to be stored.

        Raises NotAllowed: no such kind of destination, or a limit is reached.
        """
        context = self._context
        # The usual case: the name as the client writes it is the canonical one of a destination that is there.  Aliases
        # are not, so they take the long way.
        target = self._destinations.get(destination)
        if context.checks_sends or (target is None and not self._has_only_patterns(destination)):
            self.send(self.prepare(head, body, destination, options, sender))
            return
        if self._bodies is not None:
            self._bodies.check(destination, body)
        if self._stamps is not None:
            head = self._stamps(head, destination, sender)
        context.last_number += 1
        context.counters.published += 1
        message = Message(context.last_number, head, body, options)
        if context.records.is_on:
            context.records.accepted(message, destination, sender.id)
        if isinstance(target, Queue):
            target.tally.published += 1
            target.accept(message)
            return
        # Before the fan-out: subscribers and patterns get the number that the stream gives it.
        if target is not None and target.stream is not None:
            message = target.stream.add(message, sender.id)
        if target is None or self.registry.fans_out:
            self._fan_out(target, destination, message, sender.id)
        else:
            target.accept(message, sender.id)

    def taker_of_run(self, destination: str) -> Queue | Topic | None:
        """What takes many messages by `accept_run`, if they ask for nothing special; None: each goes by `publish`."""
        target = self._destinations.get(destination)
        if target is None or self._context.checks_sends or not target.takes_runs:
            return None
        if self._bodies is not None and self._bodies.schema_of(destination) is not None:
            return None
        return None if self.registry.fans_out and isinstance(target, Topic) else target

    def messages_of_run(
        self, head: Head, bodies: Iterator[bytes], destination: str, sender: Peer, options: SendOptions
    ) -> Iterator[Message]:
        """The messages that `accept_run` takes: each counts when it is taken."""
        context = self._context
        if self._stamps is not None:
            head = self._stamps(head, destination, sender)
        for body in bodies:
            context.last_number += 1
            context.counters.published += 1
            message = Message(context.last_number, head, body, options)
            if context.records.is_on:
                context.records.accepted(message, destination, sender.id)
            yield message

    def _has_only_patterns(self, destination: str) -> bool:
        """True if patterns match a topic that is not there, as the last time: nothing is left to be checked."""
        # Only names that were checked once get into the cache of matches.  A topic with a stream must come into being.
        is_known = destination.startswith(names.TOPIC) and self._patterns.known(destination)
        return is_known and not self.registry.keeps_stream(destination)

    def _keeps_nothing(self, destination: str, options: SendOptions) -> bool:
        """True if a message goes to current subscribers alone."""
        # Such a message needs no memory but that of outboxes, which have limits, so it passes even when memory is full.
        target = self._destinations.get(destination)
        if not isinstance(target, Topic) or not options.is_plain:
            return False
        return target.stream is None and not target.durable_subscriptions and not self.registry.has_patterns

    def prepare(
        self, head: Head, body: bytes, destination: str, options: SendOptions, sender: Peer | None
    ) -> PreparedSend:
        """Check a SEND and find its destinations.  Raises NotAllowed: it cannot be carried out."""
        context = self._context
        if not self._keeps_nothing(destination, options):
            context.memory.check()
        parts = names.split(destination)
        # A message of the server itself has no sender, and needs no permission.
        if sender is not None and sender.access is not None:
            authorization.check_reply_to(sender, head.headers)
        targets = []
        for part in parts:
            name = self._name(part, options.multicast, sender)
            if sender is not None and sender.access is not None:
                authorization.check_send(sender, name, part)
            if sender is not None and options.queue_arguments is not None:
                self.arguments.check(options.queue_arguments, name, part, sender)
            # Each receiver sees the one destination that it knows, and not the whole list.
            addressed = head if len(parts) == 1 else _with(head, "destination", part)
            if name.startswith(names.APP):
                name, addressed = self._for_function(name, addressed, sender)
            elif self._stamps is not None and sender is not None:
                addressed = self._stamps(addressed, name, sender)
            if self._bodies is not None:
                self._bodies.check(name, body)
            targets.append((name, addressed))
        if options.retain is not None:
            self.retained.check(name for name, _ in targets)
        expires = 0.0
        if options.time_to_live is not None:
            expires = self._clock() + options.time_to_live
            moment = str(int((context.scheduler.epoch() + options.time_to_live) * 1000))
            targets = [(name, _with(each, "expires", moment)) for name, each in targets]
        elif options.expires_at is not None:
            # Never 0, which means that it does not expire.
            expires = max(self._clock() + options.expires_at - context.scheduler.epoch(), 1e-9)
        sending = PreparedSend(targets, body, options, "" if sender is None else sender.id, expires)
        if options.mandatory:
            mandatory.check(sending)
        if options.is_delayed or options.timezone is not None:
            self.delayed.check(options)
        self.check([sending])
        return sending

    def _is_durable(self, name: str, options: SendOptions) -> bool:
        """True if a message outlives the process at that destination, by itself or in a stream."""
        if names.is_topic(name) and self.registry.keeps_stream(name):
            return self.policies.find(name).durable is not False
        return self.policies.is_durable(name, persistent=options.persistent)

    def _is_stored(self, name: str, options: SendOptions) -> bool:
        """True if a message would have to be stored now, perhaps until its time comes."""
        if name.startswith((names.REPLY_QUEUE, names.REPLY_TOPIC)):
            return False
        # To a topic without a stream, other messages come and go.
        is_kept = not names.is_topic(name) or options.retain is not None or options.is_delayed
        if (is_kept or self.registry.keeps_stream(name)) and self._is_durable(name, options):
            return True
        return self._goes_to_durable(name, options)

    def _goes_to_durable(self, name: str, options: SendOptions) -> bool:
        """True if a durable subscription that is there stores such a message, unless its selector is against it."""
        if not names.is_topic(name):
            return False
        topic = self.registry.find(name)
        topics = [*self._patterns.match(name), *([topic] if isinstance(topic, Topic) else [])]
        queues = [durable.queue for each in topics for durable in each.durable_subscriptions.values()]
        return any(queue.storage is not None and queue.storage.keeps(options) for queue in queues)

    def may_store(self, sendings: Sequence[PreparedSend]) -> bool:
        """True if one of them may change anything in the store; faster than to ask the policies."""
        for sending in sendings:
            for name, _ in sending.targets:
                target = self.registry.find(name)
                # Of topics, and queues that are not there yet, that would take longer than to find out by doing it.
                if not isinstance(target, Queue):
                    return True
                if target.storage is not None and target.storage.keeps(sending.options):
                    return True
        return False

    def check(self, sendings: Sequence[PreparedSend]) -> None:
        """Raise NotAllowed if there would be too many destinations or delayed messages, or the store has failed."""
        wanted = {name for sending in sendings for name, _ in sending.targets}
        # A topic without a stream does not come into being by a SEND, and a queue that is gone does not come again.
        new = [
            name
            for name in wanted
            if self.registry.find(name) is None
            and not self.registry.is_gone(name)
            and (not names.is_topic(name) or self.registry.keeps_stream(name))
        ]
        if new:
            self.registry.check_room(len(new))
        storage = self._context.storage
        # A generator: nothing of it is asked while the store works, which is nearly always.
        stored = (self._is_stored(name, each.options) for each in sendings for name, _ in each.targets)
        if storage is not None and storage.failure and any(stored):
            storage.check()
        kept = {name for each in sendings if each.options.retain is Retain.SET for name, _ in each.targets}
        if kept:
            self.retained.check_room(kept)
        limit = self._context.quotas.max_delayed
        if len(self.delayed) + sum(sending.options.is_delayed for sending in sendings) > limit:
            raise NotAllowed("too many delayed messages", f"the server may keep {limit} (max_delayed)")

    def _name(self, destination: str, multicast: bool | None, sender: Peer | None) -> str:
        if sender is not None and destination.startswith(names.TEMPORARY):
            name = sender.temporaries.canonical(destination)
            names.check_type(destination, name, multicast)
            return name
        return names.canonical(destination, multicast)

    def _for_function(self, name: str, head: Head, sender: Peer | None) -> tuple[str, Head]:
        """The queue of the function that handles a SEND, and the head, with the verified sender."""
        application = self._context.application
        queue = application.queue_of_send(name) if application is not None else None
        if queue is None:
            raise NoFunction(name)
        # Over what the client may have written there: functions rely on both.
        return queue, head if sender is None else _with(_with(head, "user-id", sender.user), "session", sender.id)

    def send(self, sending: PreparedSend) -> None:
        """Carry out a SEND, now or when its time comes."""
        options = sending.options
        due = 0.0
        if options is not PLAIN:
            # Before the delay: of two delayed messages with one id the second is a duplicate as well.
            if options.dedup_id is not None:
                sending.targets = self._new_ones(sending, options.dedup_id)
            due = options.delay or options.period
            if options.deliver_at is not None:
                due = options.deliver_at - self._context.scheduler.epoch()
        # None are left where all are duplicates.
        if sending.targets and options.is_scheduled:
            self.delayed.put_on_schedule(sending)
        elif due > 0 and sending.targets:
            self.delayed.put_off(sending, due)
        else:
            self._arrive(sending)

    def _new_ones(self, sending: PreparedSend, dedup_id: str) -> list[tuple[str, Head]]:
        now = self._clock()
        found = [target for target in sending.targets if self._dedup.is_new(target[0], dedup_id, now)]
        storage = self._context.storage
        if storage is not None:
            until = self._context.scheduler.epoch() + self._context.quotas.dedup_window
            for name, _ in found:
                # Where the message ends with the process, its id may end as well, and costs no write.
                if self._is_durable(name, sending.options) or self._goes_to_durable(name, sending.options):
                    storage.saw(digest(name, dedup_id), until)
        self._context.counters.duplicates += len(sending.targets) - len(found)
        return found

    def _arrive(self, sending: PreparedSend) -> None:
        for name, head in sending.targets:
            if sending.options.mandatory and not mandatory.has_consumer(self.registry, name):
                self._context.counters.unroutable += 1
                self.tell_requester(head, "no-consumer")
                continue
            message = Message(self._context.next_number(), head, sending.body, sending.options)
            message.expires = sending.expires
            self._context.counters.published += 1
            self._context.records.accepted(message, name, sending.sender)
            self._route(name, message, sending.sender)

    def tell_requester(self, head: Head, why: mandatory.Failure, reason: str = "") -> None:
        """Tell the sender of a SEND with `mandatory:true` that it has failed.  `reason`: the words of a consumer."""
        self.deposit(*mandatory.answer(head, why, reason), PLAIN)

    # the way to a destination

    def _route(self, name: str, message: Message, sender: str, *, unseen: bool = False) -> None:
        options, target = message.options, self.registry.find(name)
        unseen = unseen or self._context.commit is not None
        # A queue deals with it by its policy, perhaps as a dead letter.  At a topic it ends, and gets no number.
        if message.expires and names.is_topic(name) and message.has_expired(self._clock()):
            self._context.counters.expired += 1
            self._context.counters.expired_for_good += 1
            if target is not None:
                target.tally.expired += 1
            self._context.records.ended("expired", name, message)
            return
        # Not checked for room: `prepare` did that, and a message that was accepted must not fail here.
        if target is None and names.is_topic(name) and self.registry.keeps_stream(name):
            target = self.registry.topic(name, checked=False)
        if isinstance(target, Topic) and target.stream is not None:
            message = target.stream.add(message, sender)
        if options.retain is not None:
            self.retained.keep(name, message)
        if target is None and not names.is_topic(name) and not self.registry.is_gone(name):
            target = self.registry.create_queue(name, options.queue_arguments, sender)
            if unseen:
                target.hide(message)
            target.tally.published += 1
            target.accept(message)
            # A limit, or its time, may have been against the message.
            self.registry.forget_if_idle(target)
        elif isinstance(target, Queue):
            self.registry.tell_ignored(target, options.queue_arguments, sender)
            if unseen:
                target.hide(message)
            target.tally.published += 1
            target.accept(message)
        else:
            self._fan_out(target, name, message, sender, unseen=unseen)

    def _fan_out(self, topic: Topic | None, name: str, message: Message, sender: str, *, unseen: bool = False) -> None:
        """Give a message to the topic, if there is one, and to all patterns that match its name."""
        found = self._patterns.match(name) if self.registry.has_patterns else ()
        if unseen or self.policies.shows_stored:
            for each in self._hiding(topic, name, found, message, unseen=unseen):
                each.hide(message)
        # Encoded once for all of them; a single topic does that by itself.
        wire = Wire(message) if found else None
        if topic is not None:
            topic.accept(message, sender, wire)
        elif not found:
            self._context.counters.unroutable += 1
        for pattern in found:
            pattern.accept(message, sender, wire)
            if pattern.has_late:
                pattern.tell_late(message, sender, None if topic is None else topic.stream)

    def _hiding(
        self, topic: Topic | None, name: str, found: Sequence[Topic], message: Message, *, unseen: bool
    ) -> list[Topic]:
        """The topics that hide a message: those for which a policy says so, if the store gets it; if `unseen`, all.

        The policy of the destination is for all its subscribers, that of a pattern for those of the pattern.
        """
        every = [*found, *([] if topic is None else [topic])]
        if unseen:
            return every
        storage = self._context.storage
        of_all = (self.policies.find(name) if topic is None else topic.policy).visible is Visible.STORED
        hiding = [each for each in every if of_all or each.policy.visible is Visible.STORED]
        if storage is None or not (hiding or of_all) or not self._is_stored(name, message.options):
            return []
        # Also if no subscriber is there: one that comes meanwhile, and gets what is retained, waits as well.
        self._context.unseen_until = storage.number
        return hiding

    def deposit(
        self,
        name: str,
        head: Head,
        body: bytes,
        options: SendOptions,
        expires: float = 0.0,
        *,
        unseen: bool = False,
    ) -> None:
        """Route a message of the broker's own, a dead letter or one that an operator moves: it must find room.

        `unseen`: what it comes of is not in the store yet, so that no client may see it.
        """
        full = self._context.full.copy()
        message = Message(self._context.next_number(), head, body, options)
        message.expires = expires
        self._context.records.came(message)
        self._route(name, message, "", unseen=unseen)
        # The publisher at work did not publish there, and does not wait.
        self._context.full.intersection_update(full)

    # what the store has of the last process

    def restore_seen(self, seen: Mapping[bytes, float]) -> None:
        """Take over de-duplication ids, and until when they count, in seconds since the epoch."""
        now = self._context.scheduler.epoch()
        self._dedup.restore({key: self._clock() + until - now for key, until in seen.items()})

    def number_from(self, number: int) -> None:
        """Number messages from there on: no two processes use the same numbers in one store."""
        self._context.last_number = number

    def _clock(self) -> float:
        return self._context.scheduler.clock()


def _with(head: Head, name: str, value: str) -> Head:
    return Head.of(head.command, {**head.headers, name: value})
