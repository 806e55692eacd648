"""What the API answers about what is kept and stands in no queue; see `models`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.admin.models import Answer, Seconds, Window


class Content(Answer):
    """What a message carries."""

    headers: dict[str, str] = Field(description="those that fit; secret values are hidden")
    body: str
    body_encoding: Literal["utf-8", "base64"]
    truncated: bool = Field(description="the body is longer, or there are other headers")


# SENDs that wait for their time


class ScheduledRow(Answer):
    """A message that waits for its time."""

    id: str = Field(description="its own until then; the message that comes has another")
    destination: str = Field(description="where it goes, as the lists name it; of several with commas between")
    due: Seconds = Field(description="when it comes, since the epoch")
    size: int = Field(description="octets of the body")
    priority: int
    session: str = Field(description="that sent it; it may be gone")
    stored: bool = Field(description="it outlives the process")
    expires: Seconds | None


class Scheduled(Window):
    """A page of them."""

    scheduled: list[ScheduledRow]


class ScheduledDetail(Content, ScheduledRow):
    """One of them, whole."""


class Cancelled(Answer):
    """Messages that will not come."""

    cancelled: int


# what topics retain


class RetainedRow(Answer):
    """The value that a topic retains."""

    topic: str
    id: str = Field(description="message-id")
    size: int = Field(description="octets of the body")
    age: float = Field(description="seconds since it came, as exactly as `oldest_age` of a destination")
    age_is_least: bool = Field(description="it may be much older")
    stored: bool = Field(description="it outlives the process")
    expires: Seconds | None


class Retained(Window):
    """A page of them."""

    retained: list[RetainedRow]


class RetainedDetail(Content, RetainedRow):
    """One of them, whole."""


# where clients go on


class CursorRow(Answer):
    """How far a client has read that resumes by a name."""

    name: str = Field(description="of the three that follow")
    login: str
    client_id: str
    resume: str = Field(description="the name that it gives")
    topic: str = Field(description="or pattern")
    position: int = Field(
        description="number of the last message that it was done with, up to 5 s ago, or 60 s without a store"
    )
    behind: int | None = Field(description="messages of the log that come after that; null: of a pattern")
    session: str = Field(description="that reads under this name now; empty: none")


class Cursors(Window):
    """A page of them."""

    cursors: list[CursorRow]
