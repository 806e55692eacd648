"""Messages of a link: MessagePack arrays, each with its kind first.  A session is named by a number of its edge.

Errors, logins and identities go over as plain fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from gateway.broker import errors
from gateway.broker.model.identity import Identity
from gateway.codec import VERSIONS, LimitExceeded, MalformedFrame, ProtocolError
from gateway.transports.connection.heartbeats import HeartbeatMissing
from gateway.transports.flow.connected import Login

Message = Sequence[Any]
"""A kind, and the fields behind it."""


class ToPrimary(IntEnum):
    """Kinds of messages of an edge."""

    OPEN = 0  # number, fields of a login, whether it had one at another primary: a client asks for a session
    HEAD = 1  # number, place, command, headers, content length, size: the header block at a place of a session's table
    RUN = 2  # number, place, bodies: frames with that header block
    CONFIRMED = 3  # number, place, bodies, receipts: the same, each with a receipt
    FRAME = 4  # number, command, headers, size, body, receipt: any other frame
    WROTE = 5  # number, bytes, number, bytes ...: the sockets have taken that
    FAIL = 6  # number, error, command and headers of the frame or None: the edge ends the session
    LEFT = 7  # number, bytes of the primary's that the connection has taken: it is closed
    RENEWED = 8  # number: the client may stay longer
    REGROUPED = 9  # number, fields of an identity: it has other groups
    RECHECK = 10  # number: end it if its groups may not subscribe to what it is subscribed to
    TELL = 11  # number, event, headers, sentence: a MESSAGE about the session itself
    REFUSED = 12  # transport, peer, login or None, error: a connection ended without a session
    COUNTS = 13  # name -> number: what was counted since the last such message
    BATCH = 14  # the end of a batch that has frames
    REDEEM = 15  # question, ticket: what user is it of
    LOGIN_FAILED = 16  # address, login: count it
    LOGIN_SUCCEEDED = 17  # address, login: its passcode was right
    LOAD = 18  # fields of `EdgeLoad`: what the process has and takes, each second


class ToEdge(IntEnum):
    """Kinds of messages of the primary."""

    OPENED = 0  # number, id of the session
    REFUSE = 1  # number, error: there is no session
    WRITE = 2  # shared parts, [number, prefix or prefixes, number ...], places of the parts that are no text
    HOLD = 3  # number: read no more from the client
    GO = 4  # number: read on
    END = 5  # number, error: end the session by `FAIL`
    FAILED = 6  # number, error: the session has failed, and its ERROR is on the way
    DONE = 7  # number: nothing more comes for that session
    RENEW = 8  # number, login, passcode, authorization: find out if the client may stay longer
    HANDLED = 9  # batches: so many more have been handled, all frames of them
    TOLD = 10  # number: the client has got its event
    DRAIN = 11  # error, whether it is the process that ends: take no new client; all sessions end by it
    RELOAD = 12  # settings that a reload may change: read the files of users, keys and certificates again
    REDEEMED = 13  # question, fields of an identity or None, error or None
    LOGIN_FAILED = 14  # address, login: one has failed in another process
    LOGIN_SUCCEEDED = 15  # address, login: its passcode was right in another process
    OTHERS = 16  # connections and memory of the other processes
    ALIVE = 17  # a sign of life, which answers `COUNTS`
    ASK = 18  # number: tell at once what its socket has taken, until that is all: something waits for room
    LOGINS = 19  # fields of `KnownLogins`: what other processes know of failed logins, at the start of the link


_ERRORS: dict[str, type[ProtocolError]] = {
    each.__name__: each
    for each in (*vars(errors).values(), ProtocolError, MalformedFrame, LimitExceeded, HeartbeatMissing)
    if isinstance(each, type) and issubclass(each, ProtocolError)
}

OVER_LIMIT = "over_limit"
"""In `COUNTS` the name before the limit, of connections that one of `ConnectionLimits` has refused."""


class EdgeLoad(NamedTuple):
    """What the process of an edge has and takes."""

    connections: int = 0
    handshakes: int = 0
    incomplete: int = 0  # bytes of messages that are not complete
    memory: int = 0  # bytes
    cpu: float = 0.0  # seconds since its start
    strangers: int = 0  # connections without a login that wait for their turn
    bulk: int = 0  # the same, of senders of much data


_PLAIN = (str, int, bool, type(None))
_VERSIONS = {each.name: each for each in VERSIONS}


def fields_of_error(error: ProtocolError) -> Message:
    """An error as fields: name of its class, message, attributes."""
    # An error of a module that is not known here goes over as what it is a kind of.
    kind = next(each for each in type(error).__mro__ if each.__name__ in _ERRORS)
    known = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
    return kind.__name__, str(error), known


def error_of(fields: Message) -> ProtocolError:
    """The error that fields stand for."""
    name, message, known = fields
    kind = _ERRORS.get(name, ProtocolError)
    # Its arguments differ from class to class; what they became does not.
    error = kind.__new__(kind, message)
    error.__dict__.update(known)
    return error


def fields_of_identity(identity: Identity) -> Message:
    """An identity as fields; only its edge can review it."""
    return identity.user, sorted(identity.groups), identity.expires, identity.method, identity.hashed


def identity_of(fields: Message) -> Identity:
    """The identity that fields stand for."""
    user, groups, expires, method, hashed = fields
    return Identity(user, frozenset(groups), expires, method, hashed=hashed)


def fields_of_login(login: Login) -> Message:
    """A login as fields."""
    return (
        login.version.name,
        login.heart_beat,
        login.client_id,
        fields_of_identity(login.identity),
        login.peer,
        login.transport,
        login.address,
        login.frame_end,
    )


def login_of(fields: Message) -> Login:
    """The login that fields stand for."""
    version, heart_beat, client_id, identity, peer, transport, address, frame_end = fields
    cx, cy = heart_beat
    return Login(
        _VERSIONS[version], (cx, cy), client_id, identity_of(identity), peer, transport, address, bytes(frame_end)
    )
