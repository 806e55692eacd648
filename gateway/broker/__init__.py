"""The meaning of frames: sessions, subscriptions, queues, topics, acknowledgement, transactions.

Plain synchronous Python on one thread: no sockets, no tasks, no clock.  A layer imports only those above it here, types
included, and knows the others as protocols or callables (`tests/test_architecture.py`).

    errors        the errors that become ERROR frames
    model         plain values: `Message`, `SendOptions`, `SubscribeOptions`, `Policy`, names and patterns, and the
                  changes of one commit
    selectors     the parser of selectors; a selector becomes one call
    headers       one table of all headers, and the functions that read a header block by it into options
    core          what the layers below share: `Context`, `Scheduler`, `Memory`, `Outbox`, `Storage`, `Unseen`,
                  `EventLog`, `Counters`, authorization, and the ports
    queue         `Queue` carries out all operations; `Dispatcher` matches messages and consumers, also for groups;
                  `WaitingMessages` has the messages in memory that no consumer has; `QueueStorage` has the rows in the
                  store; `redelivery`, `overflow` and `dead_letters` decide, and change nothing
    topic         `Topic`, durable subscriptions, retained messages, streams and replay
    routing       `Registry` (which destinations there are), `Router` (the way of a SEND), `ScheduledSends`
    session       `Session` (one method for each command), its subscriptions and transactions
    broker        `Broker` makes all of these, opens and ends sessions
    admin         what operators see and change
    recovery      fills an empty broker from the store
    gauges        samples queues for the journal

A SEND to a topic
    1.  `Connection._read_frames` gives the bytes to `Decoder.feed`, and hands each frame to `Session.handle`.
    2.  `Session._on_send` takes the options of the header block; equal blocks are read once (`Head.derived`).  With
        rules, the first SEND to a destination goes through `Router.prepare` and `check_send`, and the session's
        `Access` remembers the answer.
    3.  `Router.publish` gives the message its number and tells the event log.  `Stream.add` keeps it, if the topic has
        a stream.  `PatternTrie.match` finds patterns.  Each calls `Topic.accept`.
    4.  `Topic.accept` encodes the message once for each form, and appends prefix and shared bytes to each outbox.
        Subscribers that acknowledge, and durable subscriptions, get a copy by `Queue.accept`.
    5.  An outbox that was empty enters `Context.dirty`.  At the end of the chunk `BackPressure.end_turn` flushes each
        dirty outbox with one write that does not wait, and holds back a publisher whose subscribers are slow.

    SENDs with one header block, as edges hand them over, go together: `Session.handle_run` looks once at what they have
    in common, and `Topic.accept_run` appends all of them to an outbox in one go.

A SEND to a queue
    1.  `Router.publish` finds a `Queue`, or `Registry.create_queue` makes one with its policy and the frame's
        arguments.
    2.  `Queue.accept` sets the expiry.  `QueueStorage.takes` gives the message a row if needed, and says whether it
        waits only in the store.
    3.  `ConsumerSet.next` returns the consumer whose turn it is, if one has room; with selectors, priorities or groups
        `Dispatcher.place` decides.  Without one, `WaitingMessages.add` keeps the message, and `Queue._limit` applies
        the limits.
    4.  `Subscription.deliver` enters a `Delivery` into the ledger, unless the mode is auto, and appends the frame to
        the outbox.
    5.  After an ACK, or when its outbox was written, `Subscription.offer` calls `Dispatcher.enlist`, which gives the
        consumer the first messages of its ready list.

A durable SEND until its RECEIPT
    1.  `Storage.enter` gives the message a row in the current batch, and wakes the committer.
    2.  `Session.handle` sees that `Storage.changes` has changed, and notes the batch.  `Session._promise` parks the
        RECEIPT by `Storage.when_written`.
    3.  `Committer._work` takes the batch, and the store writes it in a thread: one transaction, one sync.  Meanwhile
        the next batch fills.  A message that was settled before is not in the batch.
    4.  `Storage.written` calls the parked functions.  If the write fails, `Storage.failed` keeps the batch, the
        committer tries again each second, and `Router.check` refuses new durable messages.

The names below are imported at their first use: the settings and most commands need the names of destinations, and not
the broker.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .broker import Broker
    from .model.policy import Quotas
    from .session.session import Session

__all__ = ["Broker", "Quotas", "Session"]

_HOMES = {"Broker": "broker", "Quotas": "model.policy", "Session": "session.session"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
