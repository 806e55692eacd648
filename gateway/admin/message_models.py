"""What the API takes and answers about messages of queues; see `models`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from gateway.admin.models import Answer, Seconds, Window

MOST_IDS = 10_000
"""Of one request; a console has 1,000 on a page."""


class DeadLetter(Answer):
    """Why a message is a dead letter."""

    destination: str = Field(description="where it was sent to")
    source: str = Field(description="the queue, or durable subscription, that it comes from")
    reason: str
    failures: int
    first_at: Seconds = Field(description="of the first failure, since the epoch")


class MessageRow(Answer):
    """A message that waits."""

    id: str
    position: int | None = Field(description="from 0 on, what comes back later at the end; null where it was named")
    destination: str = Field(description="as its sender wrote it")
    size: int = Field(description="octets of the body")
    priority: int
    expires: Seconds | None
    sent: Seconds | None = Field(
        description="when it came into this queue: a dead letter when it died, one that was moved when that was done; "
        "null: neither a journal nor tracing notes it"
    )
    deliveries: int
    redelivered: bool
    delayed: bool = Field(description="it comes back later, after a failure")
    headers: dict[str, str] = Field(description="those that fit where the body is cut; secret values are hidden")
    body: str
    body_encoding: Literal["utf-8", "base64"]
    truncated: bool = Field(description="the body is longer, or there are other headers")
    dead_letter: DeadLetter | None


class Messages(Window):
    """A page of the messages of a queue."""

    messages: list[MessageRow]
    next: int | None = Field(
        description="offset of the next page; null: there is none. A page has fewer than `limit` where they are large: "
        "it ends once its rows have 512 KiB"
    )


class Destination(Answer):
    """A name."""

    destination: str = Field(min_length=1, description="as a client writes it, or as a list shows it")


Ids = Annotated[list[str], Field(min_length=1, max_length=MOST_IDS, description="message-ids")]
Most = Annotated[int, Field(ge=1, le=10**9, description="messages at most")]


class Delete(Destination):
    """Messages that are to go."""

    model_config = ConfigDict(json_schema_extra={"example": {"destination": "/queue/orders", "ids": ["$MESSAGE"]}})

    ids: Ids


class Deleted(Answer):
    """What has gone."""

    deleted: int
    missing: list[str] = Field(description="ids that do not wait there: a consumer has them, or they have gone")


class Purge(Destination):
    """A queue that is to be emptied."""

    model_config = ConfigDict(json_schema_extra={"example": {"destination": "/queue/orders", "selector": "size > 10"}})

    selector: str = Field("", description="only what it takes; empty: all")


class Purged(Answer):
    """What has gone."""

    purged: int


class Move(Answer):
    """Messages that are to go to another queue.  One of `ids` and `selector`, or none: all."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"source": "/queue/orders", "target": "/queue/parked", "limit": 100}}
    )

    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    ids: Ids | None = None
    selector: str = ""
    limit: Most | None = None


class Redrive(Destination):
    """Dead letters that are to go back to where they came from."""

    model_config = ConfigDict(json_schema_extra={"example": {"destination": "/queue/dlq.orders"}})

    ids: Ids | None = None
    limit: Most | None = None


class NotMoved(Answer):
    """A message that stayed where it was."""

    id: str
    error: str


class Moved(Answer):
    """What went to the target."""

    moved: int
    refused: list[NotMoved] = Field(description="the first 1,000")
    stopped: str | None = Field(description="why it ended before all were moved; null: it did not")


class Redriven(Answer):
    """What went back."""

    redriven: int
    refused: list[NotMoved] = Field(description="the first 1,000")
    stopped: str | None = Field(description="why it ended before all went back; null: it did not")


class Publish(Destination):
    """A message."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"destination": "/queue/orders", "body": "an order", "headers": {"persistent": "true"}}
        }
    )

    body: str
    headers: dict[str, str] = Field({}, description="as in a SEND; those that ask something of the broker count")
    body_encoding: Literal["utf-8", "base64"] = "utf-8"


class Published(Answer):
    """It has been done, and stored if it is to be."""

    published: Literal[True]
