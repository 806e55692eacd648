"""What can go wrong between a client and its server, in one sentence that repeats what server or system said."""

from __future__ import annotations


class StompError(Exception):
    """The base of them all."""


class ServerError(StompError):
    """The server sent an ERROR, or bytes that are no STOMP."""


class ConnectionLost(StompError):
    """The connection ended or could not be made; another attempt may succeed."""


class CertificateRefused(ConnectionLost):
    """The server wants a certificate of ours, or another one."""
