"""STOMP on the wire: octets to frames and back, in all versions.  No I/O, standard library only."""

from .decoder import CLIENT_COMMANDS, Decoder
from .encoder import Binary
from .errors import LimitExceeded, MalformedFrame, ProtocolError
from .frame import Frame, Head
from .limits import Limits
from .versions import V10, V11, V12, VERSIONS, Version, negotiate

__all__ = [
    "CLIENT_COMMANDS",
    "V10",
    "V11",
    "V12",
    "VERSIONS",
    "Binary",
    "Decoder",
    "Frame",
    "Head",
    "LimitExceeded",
    "Limits",
    "MalformedFrame",
    "ProtocolError",
    "Version",
    "negotiate",
]
