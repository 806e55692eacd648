"""Forwarded clients: the address of a client behind trusted proxies, by fields of HTTP or by the PROXY protocol.

A proxy adds the address of its caller to the end of `X-Forwarded-For`, or of `Forwarded` (RFC 7239).  So the list is
walked from its end, as long as the hop before is one of `trusted_proxies`:

    X-Forwarded-For: made up, 203.0.113.7, 10.0.0.9        the peer, 10.0.0.2, is trusted: 10.0.0.9 called it
                              the client   trusted, too    203.0.113.7 called that, and is not trusted

Values further left were written by untrusted hops, and a value that is no address, like `unknown`, ends the walk.
Without trust the fields are ignored.

A proxy passes on the field that it does not know.  If both fields are there and name different clients, the client may
have made up one of them, and the gateway cannot tell which: that is a mistake in the proxy's set-up, and refused.

By the PROXY protocol a proxy names its client in front of the client's own bytes:

    version 1    PROXY TCP4 203.0.113.7 198.51.100.1 40312 61613 CR LF            at most 107 bytes
                 PROXY UNKNOWN ... CR LF
    version 2    12 fixed bytes | version, command | family, protocol | length   16 bytes
                 addresses, then TLVs: kind, length of two bytes, value          so many as the length says

HAProxy's `doc/proxy-protocol.txt` is the specification.  A header without an address (`UNKNOWN`, `LOCAL`, or a family
that we do not know) speaks of the proxy itself, as in its health checks.  `accept/accept.py` decides whether the proxy
is trusted, before the first byte is read.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import structlog

from .link import Pipe

log = structlog.get_logger("gateway.listen")

UNIX = "unix"
_SECURE = frozenset(["https", "wss"])
_MOST_HOPS = 32
_MOST_WARNED = 10  # forgotten proxies that the log names
# One `name=value` of an element of Forwarded; the value a token or a quoted string (RFC 7239, section 4).
_PAIR = re.compile(r"""([!#$%&'*+.^_`|~0-9A-Za-z-]++)=("(?:[^"\\]|\\.)*+"|[^\s;,"]*+)""")
# An address with the port that some proxies write behind it.
_NODE = re.compile(r"(?:\[([^\]]*)\]|([0-9.]+))(?::[0-9_A-Za-z.-]+)?|([0-9A-Fa-f:.]+)")


class ForwardedError(Exception):
    """The fields cannot be read, or contradict each other; `str()` is one sentence."""


@dataclass(frozen=True, slots=True)
class ForwardedClient:
    """The client at the other end of all trusted proxies."""

    address: str  # without a port; empty: a unix socket
    secure: bool | None = None  # the client speaks TLS; None: no proxy says
    host: str = ""  # that the client asked for; empty: no proxy says


def plain(address: IPv4Address | IPv6Address) -> str:
    """An address as text; an IPv4 address that is mapped into IPv6 as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class Trusted:
    """Trusted proxies: addresses, networks, or `unix`, as the setting `trusted_proxies` has them."""

    __slots__ = ("_networks", "_unix", "_warned")

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self.replace(networks)

    def replace(self, networks: Iterable[str]) -> None:
        """Trust others from now on."""
        self._warned: set[str] = set()
        listed = list(networks)
        self._unix = UNIX in listed
        self._networks = [ip_network(each) for each in listed if each != UNIX]

    def __bool__(self) -> bool:
        return self._unix or bool(self._networks)

    def __contains__(self, address: str) -> bool:
        """True if the address is a trusted proxy's; empty: a unix socket."""
        if not address:
            return self._unix
        found = ip_address(address)
        return any(found in network for network in self._networks)

    def client_of(self, peer: str, fields: Mapping[str, str]) -> ForwardedClient:
        """The client behind a peer, by the header fields with lower-case names; raises `ForwardedError`."""
        if not self or peer not in self:
            self._warn(peer, fields)
            return ForwardedClient(peer)
        element: Mapping[str, str] = {}
        found: list[str] = []
        if "x-forwarded-for" in fields:
            found.append(self._walk(peer, _last_first(fields["x-forwarded-for"]))[0])
        if "forwarded" in fields:
            elements = _elements(fields["forwarded"])
            address, hops = self._walk(peer, (each.get("for", "") for each in elements))
            element = elements[hops - 1] if hops else {}
            found.append(address)
        if len(set(found)) > 1:
            raise ForwardedError(
                "Forwarded and X-Forwarded-For name different clients; the proxy must set one of them, and remove the "
                "other"
            )
        protocols = [element.get("proto"), next(_last_first(fields.get("x-forwarded-proto", "")), "")]
        # One of the two may be made up: if both are there, both must say TLS.
        secure = [each.lower() in _SECURE for each in protocols if each]
        host = element.get("host") or fields.get("x-forwarded-host", "").partition(",")[0].strip()
        return ForwardedClient(found[0] if found else peer, all(secure) if secure else None, host)

    def _warn(self, peer: str, fields: Mapping[str, str]) -> None:
        """Log, once for each, a proxy that the settings seem to lack; public addresses may write anything."""
        found = [name for name in ("X-Forwarded-For", "Forwarded") if name.lower() in fields]
        if not found or peer in self._warned or len(self._warned) == _MOST_WARNED:
            return
        if not peer or ip_address(peer).is_private:
            self._warned.add(peer)
            log.warning(f"{peer or UNIX} sends {found[0]} and is not in trusted_proxies: if it is your proxy, name it")

    def _walk(self, peer: str, hops: Iterable[str]) -> tuple[str, int]:
        """The first address from the end that is not trusted, or the last that is one, and its place from the end."""
        count = 0
        for hop in hops:
            address = _address(hop)
            if address is None or count == _MOST_HOPS:
                break
            peer, count = address, count + 1
            if address not in self:
                break
        return peer, count


NO_PROXIES = Trusted()


def _last_first(value: str) -> Iterator[str]:
    return (each.strip() for each in reversed(value.split(",")))


def _address(node: str) -> str | None:
    """The address of a hop; None: it is none, like `unknown` or `_hidden`."""
    if node == "unix:":  # as nginx calls the peer on a unix socket
        return ""
    match = _NODE.fullmatch(node)
    if match is None:
        return None
    try:
        return plain(ip_address(next(filter(None, match.groups()), "")))
    except ValueError:
        return None


def _elements(value: str) -> list[dict[str, str]]:
    """The elements of Forwarded, the last first: parameters by lower-case name.  Raises `ForwardedError`."""
    elements: list[dict[str, str]] = [{}]
    place = 0
    while place < len(value):
        match = _PAIR.match(value, place)
        if match is not None:
            text = match[2]
            elements[-1][match[1].lower()] = re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] == '"' else text
            place = match.end()
        if place < len(value):
            if value[place] == ",":
                elements.append({})
            elif value[place] not in "; \t":
                # To guess is no option: a quote that a client left open hides what the proxy wrote behind it.
                raise ForwardedError("the header field Forwarded cannot be read")
            place += 1
    return elements[::-1]


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
        source, _ = [_address_in(word, version) for word in words[2:4]]
        port, _ = [_port(word) for word in words[4:]]
    except ValueError:
        raise ProxyError("an address or a port of the PROXY line is none") from None
    return Header(size, plain(source), port)


def _address_in(word: bytes, version: int) -> IPv4Address | IPv6Address:
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
