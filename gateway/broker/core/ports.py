"""Ports: the protocols of all that the broker and the connection loop need from outside."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from gateway.codec import Head, ProtocolError

from ..model.access import Access
from ..model.changes import Batch, Stored
from ..model.identity import Credentials, Identity, Renewal
from ..model.options import SendOptions

ANONYMOUS = "anonymous"
"""The name of a user without a login, where that is allowed."""

INTERNAL = "internal"
"""The transport of sessions that are the server's own."""


class Authenticator(Protocol):
    """Finds the user of a client's credentials.

    Called at the handshake, under the connect timeout, and when a session is renewed.
    """

    def authenticate(self, credentials: Credentials) -> Awaitable[Identity | None]:
        """The user, or None when the credentials are refused.  May take long; must not block the loop.

        Raises LoginRefused: the credentials are refused, and there is more to say than that.
        """


class Authorizer(Protocol):
    """Says what a user may do.  Asked once per session."""

    def access_of(self, identity: Identity, transport: str, address: str) -> Access | None:
        """The rights of a user that came that way, from that address (empty: by a unix socket); None: all rights."""


class Application(Protocol):
    """The operator's own functions, which handle what is sent to `/app/`.  Called for each frame that names one."""

    def queue_of_send(self, name: str) -> str | None:
        """The queue (`/handlers/...`) in which what is sent to `/app/...` waits for its function; None: no function."""

    def queue_of_subscribe(self, name: str) -> str | None:
        """The queue in which the request waits that a SUBSCRIBE to `/app/...` is; None: no function."""


class StoreError(Exception):
    """The store cannot do what it should; `str()` is one sentence that names the file and the reason."""

    public = "the log of the server says why"  # the reason as a client may read it: nothing of the server's inside
    is_damage = False  # the store does not hold what it must; to try again is no use
    patience = 0.0  # seconds for which writes wait, as it may pass by itself, before clients are told
    place = ""  # the name of the place where a single damaged message stands; empty: that cannot be told


class Store(Protocol):
    """Keeps messages beyond the process.  Its calls block: they come from one worker thread, one at a time."""

    def write(self, batch: Batch) -> None:
        """Write all of a batch, or nothing.

        Raises StoreError: nothing was written; the same batch may be written again.
        """

    def read(self, rows: Sequence[int]) -> list[Stored]:
        """Rows with their contents, in that order; those that are not there are left out.

        Raises StoreError: it cannot be read; where that is damage, one of these rows is damaged, or several are.
        """


class TendedStore(Store, Protocol):
    """A store that is looked after, in the same thread."""

    def shortage(self) -> str:
        """The reason why no more messages should come for now; empty: they may.  Those under way can still be written.

        Raises StoreError: the disk does not say, or the store is not where it was: nothing can be written.
        """

    def notice(self) -> str:
        """Events of the store since the last call, for the operator; empty: there were none."""

    def tidy(self) -> bool:
        """Do some of the work that may wait until nothing else does, mostly none; True: there is more of it.

        Raises StoreError: it cannot be done.
        """


class Carrier(Protocol):
    """The connection below a session, as far as the broker knows it."""

    def flush(self) -> None:
        """Write what lies in the session's outbox, as far as that needs no waiting."""

    def end(self, error: ProtocolError) -> None:
        """End the connection from outside its own reader: an operator, a shutdown, a full outbox.

        Returns at once and changes nothing in the broker yet, for it is called from within its loops.
        """

    def renew(self, renewal: Renewal) -> None:
        """Find out if the session may last longer; then call its `renewed`, or end it.

        Returns at once.
        """


class TemporaryNames(Protocol):
    """The temporary destinations of a session."""

    def canonical(self, destination: str) -> str:
        """The canonical name of one of them, which may be new.

        Raises NotAllowed: it has no name, or there are too many.
        """


class Peer(Protocol):
    """A session, as the layers below it see it."""

    id: str  # unique
    login: str  # the user's name
    user: str  # owner of `/user/queue/...`: the login, or the session's id where the user has no name
    client_id: str  # the `client-id` of CONNECT; empty: none
    peer: str  # address of the other end
    transport: str  # `tcp` or `websocket`
    access: Access | None  # the user's rights; None: all
    names: bytes  # the fields that its rows in the journal have in common; the event log writes it
    ended: bool  # the client sent DISCONNECT

    @property
    def temporaries(self) -> TemporaryNames:
        """Its temporary destinations."""

    def end(self, error: ProtocolError) -> None:
        """End the session from outside."""


class Destinations(Protocol):
    """The registry and the router, as queues and topics use them; a target is a queue or a topic."""

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
        """Route a message of the broker's own, which must find room: a dead letter, or a moved message.

        `unseen`: what it comes of is not in the store yet, so that no client may see it.
        """

    def tell_requester(self, head: Head, why: Literal["expired", "rejected"], reason: str) -> None:
        """Tell the sender of a SEND with `mandatory:true` that it has failed."""

    def forget_if_idle(self, target: Any) -> None:
        """Drop a destination without subscriptions and messages."""

    def home_of(self, queue: Any) -> Any:
        """The queue that messages of a queue come back to: itself, or its successor; None: there is none."""

    def find(self, name: str) -> Any:
        """The destination of that canonical name; None: there is none."""


class Announcer(Protocol):
    """Publishes events for applications (`core/announcer.py`).  Asked where sessions, subscriptions and dead letters
    come and go, never for a message that is delivered.
    """

    def subscribed(self, subscription: Any) -> None:
        """A subscription has joined its destination."""

    def unsubscribed(self, subscription: Any) -> None:
        """A subscription is about to leave its destination."""

    def became_dead_letter(self, source: str, message: Any, headers: Mapping[str, str]) -> None:
        """A message of the queue `source` became a dead letter with these headers."""

    def session_begun(self, session: Peer) -> None:
        """A client has logged in."""

    def session_ended(self, session: Peer, why: str | None) -> None:
        """A session has left the broker; `why`: None: the client said DISCONNECT, or was sent away."""


Value = int | str | None | Mapping[str, str]
"""The value of a column of an event; None, or a negative number: it is not known."""


class Recorder(Protocol):
    """Takes events, in the terms of the journal's schema, which is the table of them (`gateway/journal/schema.py`).

    * `now` is the last time of `clock`: the calls come in the order of the times.  One look at the clock may serve
      several calls, like those of one message to many subscribers, or of a cumulative ACK.
    * `names` was made by one of `names_of_session`, `names_of_subscription` and `names_of_destination`, as the event
      demands: once, of the fields that do not change.
    * `number` is that of the message in its run; `message_id` is made of it.
    * Times between two events are in microseconds; they, and sizes and counts, are negative where they are not known.
    * The destination of a message is the one that it was sent to, in all rows about it.

    Nothing here waits and nothing raises.  The three events that come with each message have methods of their own.
    """

    clock: Callable[[], int]  # nanoseconds, monotonic
    is_behind: bool  # publishers are to be held back, until it says that there is relief

    def names_of_session(
        self, transport: str | None, peer: str | None, principal: str | None = None, session: str | None = None
    ) -> bytes:
        """The fields that the rows of a session have in common; before CONNECTED, some of them are not known."""

    def names_of_subscription(self, session: bytes, subscription: str | None, ack_mode: str, destination: str) -> bytes:
        """The fields that the rows of a subscription have in common.

        `session`: the names of its session.  `destination`: the server's name for it.
        """

    def names_of_destination(self, destination: str) -> bytes:
        """The field of rows that have a destination alone."""

    def accepted(
        self,
        now: int,
        names: bytes,
        destination: str,
        number: int,
        headers: Mapping[str, str],
        body: bytes,
        transaction: str | None = None,
    ) -> None:
        """The broker took a message of a client; of a transaction, at its COMMIT.

        `names`: of the session.  `headers`: of the SEND.  They do not change any more.
        """

    def delivered(self, now: int, names: bytes, number: int, size: int, delivery_count: int, queue_us: int) -> None:
        """A message went to a subscription for the first time.

        `size`: bytes of the body.  `delivery_count`: 1; or 0: a browser got it, and it stays in the queue for a
        consumer.  `queue_us`: since it was accepted.
        """

    def acked(
        self, now: int, names: bytes, number: int, delivery_count: int, ack_us: int, transaction: str | None = None
    ) -> None:
        """A delivery was settled by ACK; of a transaction, at its COMMIT.  `ack_us`: since it was delivered."""

    def record(self, event: str, now: int, names: bytes, **columns: Value) -> None:
        """Any other event; of its columns, those that are not in `names`.  `message_id` is the number of the message;
        columns that are left out are not known.
        """


class NullRecorder:
    """A recorder that discards all events."""

    is_behind = False

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        self.clock = clock

    def names_of_session(self, *_: object) -> bytes:
        """Not empty, because the event log asks again for empty names with each message; so are the other names."""
        return b"-"

    names_of_subscription = names_of_destination = names_of_session

    def accepted(self, *_: object, **__: object) -> None:
        """Discard the event, as all other methods do."""

    delivered = acked = record = accepted
