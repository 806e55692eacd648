"""Faults of a connection to NATS, as sentences: "the NATS server n1 (10.0.0.1:4222) does not answer"."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from enum import Enum, auto


class About(Enum):
    """What must change before the servers do what they are asked."""

    LOGIN = auto()  # its credentials
    PERMISSION = auto()  # what its user may do
    TLS = auto()  # whether it uses TLS, or the authority that it trusts
    CERTIFICATE = auto()  # of this client
    SERVER = auto()  # the server itself
    REPLICAS = auto()  # the number of servers, or of replicas


class NatsUnavailable(Exception):
    """No server answers for now; `str()` is one sentence that names them.  `about`: what may have to change."""

    def __init__(self, sentence: str, about: About | None = None) -> None:
        super().__init__(sentence)
        self.about = about


class Unanswered(NatsUnavailable):
    """A server is there, and has no answer to a request."""


class NoResponders(NatsUnavailable):
    """A server answers that nothing listens at the subject."""


class NatsRefused(NatsUnavailable):
    """The servers answer, and refuse: waiting alone does not help."""


_LOGIN = ("authorization violation", "user authentication", "account authentication")
_PERMISSION = "permissions violation"


class ServerRefuses(Exception):
    """A server refuses; `str()` goes on after its name.  `about`: None: it may do otherwise the next time."""

    def __init__(self, reason: str, about: About | None) -> None:
        super().__init__(reason)
        self.about = about

    @classmethod
    def of(cls, said: str) -> ServerRefuses:
        """Of an error that the server sent."""
        kind = said.lower()
        if kind.startswith(_LOGIN):
            return cls(f"refuses the login: {said}", About.LOGIN)
        if kind.startswith(_PERMISSION):
            return cls(f"does not permit it: {said}", About.PERMISSION)
        return cls(f"ends the connection: {said}", None)


class NoAnswer(TimeoutError):
    """A server is there, and has no answer to a request."""


def unavailable(where: str, error: Exception) -> NatsUnavailable:
    """The error of a call.  `where`: the server."""
    reason, about = _told(error)
    if isinstance(error, NoAnswer):
        return Unanswered(f"{where} {reason}")
    return NatsUnavailable(f"{where} {reason}") if about is None else NatsRefused(f"{where} {reason}", about)


def refusal_of(failures: Sequence[tuple[str, Exception]]) -> NatsUnavailable:
    """The error of a call for which no server could be used.  `failures`: address and error of each that was tried."""
    told = [(address, *_told(error)) for address, error in failures]
    if len(told) == 1:
        sentence = f"the NATS server {told[0][0]} {told[0][1]}"
    else:
        sentence = f"no NATS server can be used: {'; '.join([f'{address} {reason}' for address, reason, _ in told])}"
    abouts = [about for *_, about in told if about is not None]
    return NatsRefused(sentence, abouts[0]) if len(abouts) == len(told) else NatsUnavailable(sentence)


def _told(error: Exception) -> tuple[str, About | None]:
    """What a server did, and what must change; None: nothing, it may be better soon."""
    match error:
        case ServerRefuses():
            return str(error), error.about
        case NoAnswer():
            return "answers, and JetStream does not: the servers choose a leader, or have no majority", None
        case TimeoutError():
            return "does not answer", None
        case ConnectionRefusedError():
            return f"cannot be reached: {error.strerror}", None
        case ConnectionError() | ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return "closed the connection", None
        case socket.gaierror():
            return f"is not found: {error.strerror}", None
        case ssl.SSLCertVerificationError():
            return f"has a certificate that this node does not trust: {error.verify_message}", About.TLS
        case ssl.SSLError():
            return f"refuses TLS: {(error.reason or str(error)).replace('_', ' ').lower()}", About.TLS
        case OSError():
            return f"cannot be reached: {error.strerror or error}", None
    return f"is not understood: {error}", None
