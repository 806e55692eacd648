"""What the API answers, and what it takes, as models: the OpenAPI document is made of them.

A body is read through its model, and a field that it does not have is an error.  An answer is not: its rows are built
where the things are, for a list of 1,000 costs less so; tests hold every answer against its model.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Seconds = Annotated[float, Field(description="since the epoch")]


class Answer(BaseModel):
    """An object that has these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Error(BaseModel):
    """Why a request was not carried out."""

    error: str = Field(description="one sentence")
    methods: list[Literal["token", "passcode"]] | None = Field(
        None, description="of GET /api/v1/me: how one can log in; elsewhere it is left out"
    )


class Window(Answer):
    """What every list has beside its entries."""

    total: int = Field(description="entries that pass the filters")
    limit: int
    offset: int


# sessions, subscriptions, destinations


class Held(Answer):
    """Why a publisher is not read at the moment."""

    reason: str
    since: Seconds
    destination: str | None = Field(description="the queue that has no room")
    receiver: str | None = Field(description="session of the subscriber that does not keep up")


class SessionRow(Answer):
    """A connected client."""

    id: str
    login: str
    client_id: str
    version: Literal["1.0", "1.1", "1.2"]
    transport: str = Field(description="tcp or websocket; internal: the server's own functions")
    peer: str
    connected_at: Seconds
    subscriptions: int
    unacknowledged: int = Field(description="messages that it has and did not settle")
    oldest_unacknowledged_age: float | None = Field(
        description="seconds since the message came, at least, that one of its subscriptions has had longest without "
        "an ACK; null: there is none"
    )
    transactions: int = Field(description="that are open")
    pending_octets: int = Field(description="that wait to be read by it")
    frames_in: int
    delivered: int = Field(description="frames that were handed to its connection")
    heart_beat: list[int] = Field(description="milliseconds between heart-beats, out and in; 0: none")
    held: Held | None


class Ended(Answer):
    """Sessions that an operator has ended."""

    ended: int = Field(description="how many there were")


class SubscriptionRow(Answer):
    """A subscription."""

    session: str
    login: str
    id: str | None = Field(description="as the client named it; null: a 1.0 client without one")
    destination: str = Field(description="as the client wrote it")
    target: str = Field(description="the destination's name in the lists")
    ack: Literal["auto", "client", "client-individual"]
    selector: str = Field(description="empty: none")
    prefetch: int | None = Field(description="messages at a time, as it asked; null: it did not")
    unacknowledged: int
    oldest_unacknowledged_age: float | None = Field(
        description="seconds since the message came, at least, that it has had longest without an ACK; null: none"
    )
    delivered: int | None = Field(description="messages of a queue; null: nobody counts them")
    durable: str | None = Field(description="name of the durable subscription; null: it ends with its session")
    browser: bool


class LogRow(Answer):
    """What a topic keeps for replay."""

    first: int
    next: int
    messages: int
    octets: int


class DestinationRow(Answer):
    """A destination that is in use."""

    name: str
    kind: Literal["queue", "topic", "pattern"]
    subscriptions: int
    waiting: int = Field(description="messages that nobody has")
    oldest_age: float | None = Field(
        description="seconds since the oldest message came that nobody has, to a second up to ten minutes, to a minute "
        "up to a day, to an hour beyond, and never too much; null: nothing waits, or only what is being read"
    )
    oldest_age_is_least: bool = Field(
        description="it may be much older: it was there when the gateway started, or more than 60 days ago"
    )
    delayed: int = Field(description="messages that come back later, after a failure")
    unacknowledged: int
    octets: int = Field(description="what waiting messages cost in memory")
    stored: int = Field(description="messages that are in the store")
    full: bool = Field(description="it has no room, and publishers wait; never where a policy drops or refuses instead")
    durable: bool
    dead_letters: bool = Field(description="it is a dead-letter queue, by its name or by a policy")
    log: LogRow | None


class Sessions(Window):
    """A page of sessions."""

    sessions: list[SessionRow]


class SessionDetail(SessionRow):
    """A session, and what it subscribes to."""

    subscription_list: list[SubscriptionRow] = Field(description="the first 1,000")


class Subscriptions(Window):
    """A page of subscriptions."""

    subscriptions: list[SubscriptionRow]


class Destinations(Window):
    """A page of destinations."""

    destinations: list[DestinationRow]


class DestinationDetail(DestinationRow):
    """A destination, its policy, and who subscribes to it."""

    policy: dict[str, JsonValue] = Field(description="key -> value in force")
    policy_of_clients: list[str] = Field(description="keys of it that the queue arguments of a client set")
    subscription_list: list[SubscriptionRow] = Field(description="the first 1,000")
    groups: int | None = Field(description="message groups that are known; null: it is no queue")


# the gateway


class SettingRow(Answer):
    """A setting."""

    name: str
    value: JsonValue = Field(description="in force; secrets are hidden")
    source: str = Field(description="default, file, or the name of the variable")
    default: JsonValue
    description: str


class PolicyRow(Answer):
    """A `[[policy]]` table."""

    match: list[str]
    values: dict[str, JsonValue]


class SettingsAnswer(Answer):
    """All settings, policies and rules."""

    settings: list[SettingRow]
    policies: list[PolicyRow]
    rules: list[dict[str, JsonValue]]


class Draining(Answer):
    """The drain has begun."""

    draining: Literal[True]
    sessions: int = Field(description="that are being told")
    next: str = Field(description="what an operator does then")


class Jobs(Answer):
    """The jobs of `gateway pipeline run` that left a snapshot."""

    jobs: dict[str, float] = Field(description="name -> when, in seconds since the epoch")


class Alive(Answer):
    """The process lives."""

    status: Literal["alive"]


class Ready(BaseModel):
    """Clients may be sent here; what does not work as it should stands beside, by name."""

    status: Literal["ready"]
    journal: str | None = None
    certificate: str | None = None


class Config(Answer):
    """Where a page finds the WebSocket."""

    websocket_path: str
    websocket_port: int | None = Field(description="null: the page's own")
    websocket_tls: bool = False


# logging in


class LogIn(Answer):
    """Who wants to use the console: a token, or login and passcode."""

    model_config = ConfigDict(json_schema_extra={"example": {"token": "$ADMIN_TOKEN"}})

    token: str | None = None
    login: str | None = None
    passcode: str | None = None


class LoggedIn(Answer):
    """The cookie comes beside."""

    user: str
    csrf: str = Field(description="for the header X-CSRF-Token of every change")


class Me(Answer):
    """Who asks."""

    user: str
    via: Literal["token", "cookie", "local"]
    csrf: str | None


class Ticket(Answer):
    """Good once."""

    ticket: str
    expires_in: float = Field(description="seconds")
