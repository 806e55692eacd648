"""Schema of the journal, version 1: the columns, and the events with their columns.

This table is the one definition.  The bytes in `record`, the Arrow schema of the archive, the DDL for Spark and the
page of documentation are made from it.  A column that an event does not have is null in its rows.

Within a version columns, events, and columns of events are only added.  Readers skip unknown ones, and read null where
an older writer wrote less.  All other changes make version 2.

A row is unique by (gateway, epoch, seq).  Within an epoch no seq is missing: dropped rows have none, and
`journal_dropped` tells their number.
"""

from dataclasses import dataclass

VERSION = 1

# The types, as Spark writes them.
STRING = "string"
INT = "int"
BIGINT = "bigint"
TIMESTAMP = "timestamp"
MAP = "map<string,string>"
BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Column:
    """A column.  `type`: in Spark's spelling.  `nullable`: some rows have no value."""

    name: str
    type: str
    meaning: str
    nullable: bool = True


COLUMNS = (
    Column("gateway", STRING, "the id of the gateway", nullable=False),
    Column("epoch", BIGINT, "its start, microseconds since 1970; each start has another one", nullable=False),
    Column("seq", BIGINT, "from 1, and one more for each row of an epoch", nullable=False),
    Column("ts", TIMESTAMP, "microseconds, UTC; it never goes back within an epoch", nullable=False),
    Column("event", STRING, "what happened", nullable=False),
    Column("transport", STRING, "`tcp` or `websocket`"),
    Column("peer", STRING, "address of the client"),
    Column("principal", STRING, "its login"),
    Column("session", STRING, "its session"),
    Column("subscription", STRING, "the `id` of its SUBSCRIBE; null where a 1.0 client gave none"),
    Column("ack_mode", STRING, "`auto`, `client` or `client-individual`"),
    Column(
        "destination",
        STRING,
        "the server's name for it; rows of a message: where it was sent; of a subscription: the pattern, or the queue "
        "`/dsub/...` of a durable one",
    ),
    Column("message_id", STRING, "as on MESSAGE; the same for all deliveries"),
    Column("transaction", STRING, "the client's name for the transaction it was part of"),
    Column("size", INT, "bytes of the body, including those that `body` leaves out"),
    Column("delivery_count", INT, "number of the delivery, from 1; 0: none yet, or a browser's"),
    Column("queue_us", BIGINT, "microseconds since `accepted`; null where the start is not known"),
    Column("ack_us", BIGINT, "microseconds from the delivery to its ACK or NACK"),
    Column("pending", INT, "deliveries that are not acknowledged"),
    Column("depth", INT, "messages that wait"),
    Column("oldest_us", BIGINT, "microseconds since the oldest of them came, or was delivered; null: there is none"),
    Column("dropped_rows", BIGINT, "rows that are missing in front of this one"),
    Column("reason", STRING, "the cause, in the words of the client or the gateway"),
    Column("headers", MAP, "of the SEND, unescaped; never `passcode`"),
    Column("body", BINARY, "its first bytes, up to the limit of the setting; null: none are kept"),
    Column("node", STRING, "the node of the cluster that this gateway is"),
    Column("cluster_epoch", BIGINT, "number of its time as primary; each primary has a higher one"),
)

PARTITIONS = (
    Column("date", "date", "of `ts`, UTC", nullable=False),
    Column("hour", INT, "of `ts`, UTC", nullable=False),
)
"""Columns of the archive's folders."""

OF_EVERY_ROW = ("gateway", "epoch", "seq", "ts", "event")
SESSION = ("transport", "peer", "principal", "session")
SUBSCRIPTION = (*SESSION, "subscription", "ack_mode", "destination")
_DELIVERY = (*SUBSCRIPTION, "message_id", "size", "delivery_count", "queue_us")
MESSAGE = ("destination", "message_id", "size", "delivery_count", "queue_us")
_PRIMARY = ("node", "cluster_epoch", "reason")


@dataclass(frozen=True, slots=True)
class Event:
    """An event.  `code`: in records; never used for another event.  `columns`: beside `OF_EVERY_ROW`."""

    name: str
    code: int
    columns: tuple[str, ...]
    meaning: str


EVENTS = (
    Event(
        "accepted",
        1,
        (*SESSION, "destination", "message_id", "size", "headers", "body", "transaction"),
        "the broker took a message of a client; of a transaction, at its COMMIT",
    ),
    Event("delivered", 2, _DELIVERY, "a message went to a subscription for the first time"),
    Event("redelivered", 3, _DELIVERY, "a later delivery of a message, in place of `delivered`"),
    Event(
        "acked",
        4,
        (*SUBSCRIPTION, "message_id", "delivery_count", "ack_us", "transaction"),
        "a delivery was settled by ACK; of a cumulative one, one row for each",
    ),
    Event(
        "nacked",
        5,
        (*SUBSCRIPTION, "message_id", "delivery_count", "ack_us", "reason", "transaction"),
        "a delivery was settled by NACK",
    ),
    Event("expired", 6, MESSAGE, "a message expired before it was consumed"),
    Event(
        "dead_lettered",
        7,
        (*MESSAGE, "reason", "headers"),
        "a message became a dead letter; `destination` and `message_id` are those it had, `headers` those it has now",
    ),
    Event(
        "dropped",
        8,
        (*MESSAGE, "reason"),
        "a message was dropped; if only the store had it, size and count are not known",
    ),
    Event("tx_begun", 9, (*SESSION, "transaction"), "BEGIN"),
    Event("tx_committed", 10, (*SESSION, "transaction"), "COMMIT"),
    Event("tx_aborted", 11, (*SESSION, "reason", "transaction"), "ABORT, or the session ended before"),
    Event("subscribed", 12, SUBSCRIPTION, "SUBSCRIBE"),
    Event("unsubscribed", 13, (*SUBSCRIPTION, "reason"), "UNSUBSCRIBE, or the session ended"),
    Event("connected", 14, SESSION, "a session began"),
    Event("disconnected", 15, (*SESSION, "reason"), "it ended"),
    Event("error", 16, (*SESSION, "reason"), "a client got an ERROR"),
    Event("heartbeat_missed", 17, SESSION, "a client was silent for longer than agreed"),
    Event(
        "gauge_subscription",
        18,
        (*SUBSCRIPTION, "pending", "oldest_us"),
        "from time to time, of each subscription with deliveries that are not acknowledged; once more when all are",
    ),
    Event(
        "gauge_destination",
        19,
        ("destination", "pending", "depth", "oldest_us"),
        "from time to time, of each queue that holds messages; once more when it is empty",
    ),
    Event("journal_dropped", 20, ("dropped_rows", "reason"), "the journal had to drop rows"),
    Event("became_primary", 21, _PRIMARY, "this node of a cluster took over"),
    Event("stepped_down", 22, _PRIMARY, "its time as primary has ended; a node that is lost writes no such row"),
)

BY_NAME = {event.name: event for event in EVENTS}
INDEX = {column.name: place for place, column in enumerate(COLUMNS)}  # the place of a column in a row


def ddl() -> str:
    """The schema for Spark, without the partitions."""
    return ", ".join([f"{each.name} {each.type}{'' if each.nullable else ' NOT NULL'}" for each in COLUMNS])
