"""PROXY protocol: a proxy names its client, in front of the client's own bytes.

    version 1    PROXY TCP4 203.0.113.7 198.51.100.1 40312 61613 CR LF            at most 107 bytes
                 PROXY UNKNOWN ... CR LF
    version 2    12 fixed bytes | version, command | family, protocol | length   16 bytes
                 addresses, then TLVs: kind, length of two bytes, value          so many as the length says

HAProxy's `doc/proxy-protocol.txt` is the specification.  A header without an address (`UNKNOWN`, `LOCAL`, or a family
that we do not know) speaks of the proxy itself, as in its health checks.

`accept/accept.py` decides whether the proxy is trusted, before the first byte is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from .forwarded import plain
from .link import Pipe

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_START = b"PROXY "
_LONGEST_LINE = 107
_FIXED = struct.Struct("!12sBBH")
# Bytes behind the fixed ones.  Addresses take 36, or 216 of a unix socket; the rest is for TLVs, of which a client
# certificate's names are the longest.
_LONGEST_REST = 4096
_LOCAL, _PROXY = 0x20, 0x21
_TCP4, _TCP6 = 0x11, 0x21
_SIZES = {_TCP4: (4, 12), _TCP6: (16, 36)}  # of one address, and of the whole block
_UNIX = 216
_TLV = struct.Struct("!BH")
_SSL = 0x20
_CLIENT_SSL = 0x01  # bit of the SSL TLV: the client speaks TLS with the proxy
_READ = 4096


class ProxyError(Exception):
    """There is no valid header; `str()` says what came instead; empty: nothing came."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a proxy, of `size` bytes, and the client that it names."""

    size: int
    address: str = ""  # empty: it names no client
    port: int = 0
    secure: bool = False  # the client speaks TLS with the proxy


def parse(data: bytes) -> Header | None:
    """Read a header from the start of the bytes; None: it is not complete yet.  Raises `ProxyError`."""
    if data.startswith(_SIGNATURE[: len(data)]):
        return _parse_binary(data)
    if data.startswith(_START[: len(data)]):
        return _parse_line(data)
    raise ProxyError("the connection does not begin with a PROXY header")


def _parse_line(data: bytes) -> Header | None:
    line, end, _ = data[:_LONGEST_LINE].partition(b"\r\n")
    if not end:
        if len(data) >= _LONGEST_LINE:
            raise ProxyError(f"the PROXY line has no end within {_LONGEST_LINE} bytes")
        return None
    size = len(line) + 2
    words = line.split(b" ")
    if words[1] == b"UNKNOWN":
        return Header(size)
    version = {b"TCP4": 4, b"TCP6": 6}.get(words[1])
    if version is None or len(words) != 6:
        raise ProxyError("the PROXY line is not TCP4 or TCP6 with two addresses and two ports, nor UNKNOWN")
    try:
        source, _ = [_address(word, version) for word in words[2:4]]
        port, _ = [_port(word) for word in words[4:]]
    except ValueError:
        raise ProxyError("an address or a port of the PROXY line is none") from None
    return Header(size, plain(source), port)


def _address(word: bytes, version: int) -> IPv4Address | IPv6Address:
    address = ip_address(word.decode("ascii"))
    if address.version != version or b"%" in word:
        raise ValueError
    return address


def _port(word: bytes) -> int:
    if not word.isdigit() or len(word) > 5 or int(word) > 65_535:
        raise ValueError
    return int(word)


def _parse_binary(data: bytes) -> Header | None:
    if len(data) < _FIXED.size:
        return None
    _, command, family, length = _FIXED.unpack_from(data)
    if command not in (_LOCAL, _PROXY):
        raise ProxyError(f"the PROXY header has version and command {command:#04x}; known are 0x20 and 0x21")
    if length > _LONGEST_REST:
        raise ProxyError(f"the PROXY header is {length} bytes long, more than {_LONGEST_REST}")
    size = _FIXED.size + length
    if len(data) < size:
        return None
    if command == _LOCAL:
        return Header(size)
    rest = data[_FIXED.size : size]
    if family not in _SIZES:
        # Addresses of unix sockets name no client; other families may have any size, so that no TLV can be found there.
        return Header(size, secure=family >> 4 == 3 and _is_secure(rest[_UNIX:]))
    width, block = _SIZES[family]
    if length < block:
        raise ProxyError(f"the addresses of the PROXY header take {block} bytes, and it has {length}")
    (port,) = struct.unpack_from("!H", rest, 2 * width)
    return Header(size, plain(ip_address(rest[:width])), port, _is_secure(rest[block:]))


def _is_secure(tlvs: bytes) -> bool:
    return any(kind == _SSL and value[:1] and value[0] & _CLIENT_SSL for kind, value in _tlvs(tlvs))


def _tlvs(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(data):
        if len(data) - place < _TLV.size:
            raise ProxyError("a TLV of the PROXY header is cut off")
        kind, length = _TLV.unpack_from(data, place)
        place += _TLV.size
        if length > len(data) - place:
            raise ProxyError("a TLV of the PROXY header is longer than the header")
        yield kind, data[place : place + length]
        place += length


async def read_header(pipe: Pipe) -> tuple[Header, bytes]:
    """Read the header; returns it, and the bytes that came behind it.  Raises `ProxyError`."""
    data = b""
    while True:
        more = await pipe.receive(_READ)
        if not more:
            raise ProxyError("the connection ended in the PROXY header" if data else "")
        data += more
        header = parse(data)
        if header is not None:
            return header, data[header.size :]


class Resumed:
    """A pipe of which some bytes have been read already."""

    __slots__ = ("_behind", "_pipe", "aclose", "has_bytes", "peer_has_gone", "send_eof", "send_nowait", "send_some")

    def __init__(self, pipe: Pipe, behind: bytes) -> None:
        self._pipe = pipe
        self._behind = behind
        # The way out is the pipe's own.
        self.send_nowait = pipe.send_nowait
        self.send_some = pipe.send_some
        self.peer_has_gone = pipe.peer_has_gone
        self.has_bytes = pipe.has_bytes  # ours are read at once
        self.send_eof = pipe.send_eof
        self.aclose = pipe.aclose

    async def receive(self, size: int) -> bytes:
        if self._behind:
            data, self._behind = self._behind[:size], self._behind[size:]
            return data
        return await self._pipe.receive(size)
