"""Errors of the client: one sentence each, with the words of the server or of the system."""

from __future__ import annotations


class StompError(Exception):
    """The base of all errors of the client."""


class ServerError(StompError):
    """The server sent an ERROR, or bytes that are not STOMP."""


class ConnectionLost(StompError):
    """The connection ended or could not be made; another attempt may succeed."""


class CertificateRefused(ConnectionLost):
    """The server demands a client certificate, or another one."""
