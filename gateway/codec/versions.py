"""The protocol versions as data.

A version is a row of facts, not a class with behaviour: decoder, encoder and session read the facts, so that no
version inherits from another and every difference can be seen on this page.

What differs (section 15 of the requirements):

    version   lines end in    escapes        letter case of commands        spaces around lines
                                             and standard header names
    1.0       LF, CR LF       none           free  (the lenient dialect)    trimmed
    1.1       LF              \\n \\c \\\\       exact                          kept
    1.2       LF, CR LF       \\n \\c \\\\ \\r    exact                          kept

NACK and the ack mode client-individual came with 1.1.  RabbitMQ and ActiveMQ take both of 1.0 clients, and so do we.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """The facts of one protocol version.

    Attributes:
        name: as in `accept-version` and `version`.
        index: position in `VERSIONS`, oldest first; keys small per-version tables.
        lenient: the 1.0 dialect: letter case is free, spaces around lines are no part of them.
        strips_cr: a CR in front of the LF belongs to the end of the line.
        escapes: character -> how a header writes it; empty where the version knows no escapes.
        unescapes: the reverse.
        heartbeats: the version has heart-beating.
        subscription_id: SUBSCRIBE and UNSUBSCRIBE must carry `id`.
        ack_id: ACK names the delivery by `id`, the value of the MESSAGE's `ack` header.
    """

    name: str
    index: int
    lenient: bool
    strips_cr: bool
    escapes: dict[str, str]
    unescapes: dict[str, str]
    heartbeats: bool
    subscription_id: bool
    ack_id: bool


def _reverse(escapes: dict[str, str]) -> dict[str, str]:
    return {escape: character for character, escape in escapes.items()}


_ESCAPES_11 = {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
_ESCAPES_12 = {**_ESCAPES_11, "\r": "\\r"}

V10 = Version("1.0", 0, True, True, {}, {}, False, False, False)
V11 = Version("1.1", 1, False, False, _ESCAPES_11, _reverse(_ESCAPES_11), True, True, False)
V12 = Version("1.2", 2, False, True, _ESCAPES_12, _reverse(_ESCAPES_12), True, True, True)

VERSIONS = (V10, V11, V12)
_BY_NAME = {version.name: version for version in VERSIONS}


def negotiate(accept_version: str | None) -> Version | None:
    """The highest version of an `accept-version` header that we know (NEG-01 to NEG-07).

    No header means 1.0.  The order of the list is free, unknown versions are skipped, spaces around a version are
    forgiven.  None when there is no common version.
    """
    if accept_version is None:
        return V10
    offered = {token.strip() for token in accept_version.split(",")}
    common = [version for name, version in _BY_NAME.items() if name in offered]
    return max(common, key=lambda version: version.index, default=None)
