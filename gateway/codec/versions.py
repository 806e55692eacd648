"""Versions of the protocol as data: decoder, encoder and session read the facts of a row.

The differences (section 15 of the requirements):

    version   lines end in    escapes        letter case of commands        spaces around lines
                                             and standard header names
    1.0       LF, CR LF       none           free  (the lenient dialect)    trimmed
    1.1       LF              \\n \\c \\\\       exact                          kept
    1.2       LF, CR LF       \\n \\c \\\\ \\r    exact                          kept

NACK and the ack mode client-individual came with 1.1.  RabbitMQ and ActiveMQ accept both in 1.0, and so do we.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """The facts of one protocol version."""

    name: str  # as in `accept-version` and `version`
    index: int  # position in `VERSIONS`, oldest first; keys small per-version tables
    lenient: bool  # the 1.0 dialect: letter case is free, spaces around lines are ignored
    strips_cr: bool  # a CR before the LF belongs to the end of the line
    escapes: dict[str, str]  # character -> its escape in a header; empty if the version has no escapes
    unescapes: dict[str, str]  # the reverse
    heartbeats: bool  # the version has heart-beating
    subscription_id: bool  # SUBSCRIBE and UNSUBSCRIBE must carry `id`
    ack_id: bool  # ACK names the delivery by `id`, the value of the MESSAGE's `ack` header


def _reverse(escapes: dict[str, str]) -> dict[str, str]:
    return {escape: character for character, escape in escapes.items()}


# STOMP 1.1, Value Encoding; the colon because the first colon of a line ends the name.
_ESCAPES_11 = {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
# STOMP 1.2, Value Encoding: there CR LF may end a line, so a CR in a value needs an escape (ENC-02).
_ESCAPES_12 = {**_ESCAPES_11, "\r": "\\r"}

# 1.0 strips CR because its clients end lines with CR LF, as RabbitMQ and ActiveMQ accept (LEN-01); in 1.1 a CR is data
# of the value (FRM-03); 1.2 defines EOL as [CR] LF (FRM-02).
V10 = Version("1.0", 0, True, True, {}, {}, False, False, False)
V11 = Version("1.1", 1, False, False, _ESCAPES_11, _reverse(_ESCAPES_11), True, True, False)
V12 = Version("1.2", 2, False, True, _ESCAPES_12, _reverse(_ESCAPES_12), True, True, True)

VERSIONS = (V10, V11, V12)
_BY_NAME = {version.name: version for version in VERSIONS}


def negotiate(accept_version: str | None) -> Version | None:
    """Highest common version of an `accept-version` header; None: there is none."""
    if accept_version is None:
        return V10  # NEG-01: clients of 1.0 do not know the header
    # NEG-02 to NEG-07: the order of the list is free, and unknown versions are skipped; some clients write spaces.
    offered = {token.strip() for token in accept_version.split(",")}
    common = [version for name, version in _BY_NAME.items() if name in offered]
    return max(common, key=lambda version: version.index, default=None)
