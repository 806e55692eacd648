"""What hostile clients do.

An attack is a function that does its worst once, in bounded time and volume, and returns what it was told.  Its row
says over which transports it comes, under which settings, and which words must stand in what it was told, or in the log
of the gateway where no words can reach it: mostly the name of the setting that stopped it.
"""

from __future__ import annotations

import base64
import functools
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import jwt
import trio

from tests.transports.peers import (
    BINARY,
    CONTINUATION,
    TEXT,
    UPGRADE,
    Peer,
    WebSocketWire,
    dial_stream,
    frame,
    read_all,
    ws,
)

from .siege import MIB, Siege

BOTH = ("tcp", "websocket")
SECRET = "a secret of more than thirty-two octets"

Run = Callable[[Siege], Awaitable[str]]


@dataclass(frozen=True)
class Attack:
    """One row of the list.

    Attributes:
        run: does it, once.
        names: words that must be told, or stand in the log.
        kinds: the transports that it comes by.
        settings: of the gateway; a value `{folder}/...` is a file that `files` has.
        files: name -> content.
        login: the neighbour's name, where one must log in.
        passcode: likewise.
    """

    run: Run
    names: tuple[str, ...]
    kinds: tuple[str, ...] = BOTH
    settings: dict[str, object] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    login: str = ""
    passcode: str = ""

    @property
    def name(self) -> str:
        """As it is called in lists."""
        return self.run.__name__.replace("_", " ")


# before login


async def slow_loris(siege: Siege) -> str:
    """A CONNECT that comes an byte at a time, and never whole."""
    peer = await siege.dial()
    async with trio.open_nursery() as nursery:

        async def drip() -> None:
            for octet in b"CONNECT\n" + b"h:v\n" * 1000:
                try:
                    await peer.send(bytes([octet]))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return
                await trio.sleep(0.1)

        nursery.start_soon(drip)
        said = await siege.told(peer)
        nursery.cancel_scope.cancel()
    return said


async def half_open(siege: Siege) -> str:
    """5,000 connections that say nothing; the gateway keeps as many as it may, and lets others in all the while."""
    streams: list[trio.SocketStream] = []
    try:
        while len(streams) < 5_000:
            streams.append(await dial_stream(siege.address))
        peer = await siege.log_in()
        await peer.settled()
        await peer.aclose()
    finally:
        for stream in streams:
            stream.socket.close()
    return ""


async def header_flood(siege: Siege) -> str:
    """More headers than a frame may have."""
    peer = await siege.log_in()
    headers = b"".join([b"h%d:v\n" % number for number in range(2_000)])
    await _pour(peer, b"SEND\ndestination:/queue/a\n" + headers + b"\n\0")
    return await siege.told(peer)


async def header_flood_before_login(siege: Siege) -> str:
    """The same by a stranger, who may send less."""
    peer = await siege.dial()
    await _pour(peer, b"CONNECT\n" + b"".join([b"h%d:v\n" % number for number in range(200)]) + b"\n\0")
    return await siege.told(peer)


async def long_header(siege: Siege) -> str:
    """A header line without an end."""
    peer = await siege.log_in()
    await _pour(peer, b"SEND\ndestination:" + b"x" * MIB)
    return await siege.told(peer)


async def huge_content_length(siege: Siege) -> str:
    """A length that nobody will ever send."""
    peer = await siege.log_in()
    await peer.send(b"SEND\ndestination:/queue/a\ncontent-length:99999999999999\n\n")
    return await siege.told(peer)


async def endless_body(siege: Siege) -> str:
    """A body without length and without NUL."""
    peer = await siege.log_in()
    await _pour(peer, b"SEND\ndestination:/queue/a\n\n", *[b"x" * MIB] * 64)
    return await siege.told(peer)


# logged in


async def subscription_flood(siege: Siege) -> str:
    """More subscriptions than a session may have."""
    peer = await siege.log_in()
    flood = [frame("SUBSCRIBE", id=n, destination=f"/topic/{n}") for n in range(1_001)]
    await _pour(peer, *flood)
    return await siege.told(peer)


async def transaction_flood(siege: Siege) -> str:
    """More open transactions than a session may have."""
    peer = await siege.log_in()
    await _pour(peer, *[frame("BEGIN", transaction=n) for n in range(100)])
    return await siege.told(peer)


async def transaction_of_everything(siege: Siege) -> str:
    """A transaction that never ends."""
    peer = await siege.log_in()
    part = frame("SEND", b"x" * MIB, destination="/queue/a", transaction="t", content_length=MIB)
    await _pour(peer, frame("BEGIN", transaction="t"), *[part] * 64)
    return await siege.told(peer)


async def wildcard_explosion(siege: Siege) -> str:
    """A pattern that would have to be searched for everywhere."""
    peer = await siege.log_in()
    await peer.send_frame("SUBSCRIBE", id=1, destination="/topic/" + ".".join(["#.*"] * 20))
    return await siege.told(peer)


async def selector_bomb(siege: Siege) -> str:
    """A selector that is deeper than any that is meant."""
    peer = await siege.log_in()
    await peer.send_frame("SUBSCRIBE", id=1, destination="/topic/a", selector="(" * 5_000 + "a=1" + ")" * 5_000)
    return await siege.told(peer)


async def reader_that_never_reads(siege: Siege) -> str:
    """1 GB is sent to it."""
    reader, writer = await siege.log_in(), await siege.log_in()
    await reader.subscribe("/topic/big")
    part = frame("SEND", b"x" * MIB, destination="/topic/big", content_length=MIB)
    await _pour(writer, *[part] * 1_000)
    await writer.settled()
    await writer.aclose()
    await reader.aclose()
    return ""


async def message_hoard(siege: Siege) -> str:
    """1 GB into queues that nobody reads: the gateway does not read it, and tells the operator who is held, and why.

    The operator purges the queue.
    """
    peer = await siege.log_in()
    part = frame("SEND", b"x" * MIB, destination="/queue/hoard", content_length=MIB)
    with trio.move_on_after(3):
        await _pour(peer, *[part] * 1_000)
    answer = await trio.to_thread.run_sync(httpx.get, f"{siege.gateway.http_url}/api/v1/sessions")
    await peer.aclose()
    await trio.to_thread.run_sync(_purge, siege, "/queue/hoard")
    return answer.text


def _purge(siege: Siege, destination: str) -> None:
    answer = httpx.post(f"{siege.gateway.http_url}/api/v1/queues/purge", json={"destination": destination})
    assert answer.status_code < 300, answer.text


async def half_frames(siege: Siege) -> str:
    """Many sessions, each in the middle of a large body, and none goes on: they are held, or the first is sent away."""
    peers = [await siege.log_in() for _ in range(40)]
    start = b"SEND\ndestination:/queue/a\ncontent-length:16000000\n\n"
    said: list[str] = []
    with trio.move_on_after(5):
        await _pour_all(siege, peers, start, said)
    for peer in peers:
        await peer.aclose()
    return "; ".join(said)


async def _pour_all(siege: Siege, peers: list[Peer], start: bytes, said: list[str]) -> None:
    async with trio.open_nursery() as nursery:

        async def listen(peer: Peer) -> None:
            said.append(await siege.told(peer))
            nursery.cancel_scope.cancel()  # one was told; the others are no different

        for peer in peers:
            nursery.start_soon(_pour, peer, start, *[b"x" * MIB] * 15)
            nursery.start_soon(listen, peer)


# WebSocket


async def endless_fragments(siege: Siege) -> str:
    """A message in fragments without end."""
    peer = await siege.log_in()
    start = ws(TEXT, b"SEND\ndestination:/queue/a\n\n", fin=False)
    more = ws(CONTINUATION, b"x" * 1000, fin=False)
    await _pour_raw(peer, [start, *[more * 100] * 500])
    return await siege.told(peer)


async def unmasked_frames(siege: Siege) -> str:
    """Frames as only servers send them."""
    peer = await siege.log_in()
    await peer.wire.stream.send_all(ws(TEXT, b"SEND\ndestination:/queue/a\n\n\0", mask=None))
    return await siege.told(peer)


async def foreign_page(siege: Siege) -> str:
    """An upgrade that a page of somebody else asks for."""
    return await _upgrade(siege, UPGRADE.replace(b"\r\n\r\n", b"\r\nOrigin: https://evil.example\r\n\r\n"))


async def _upgrade(siege: Siege, request: bytes) -> str:
    stream = await dial_stream(siege.address)
    await stream.send_all(request)
    said = (await read_all(stream)).decode(errors="replace")
    await stream.aclose()
    return said


# credentials


def token(algorithm: str = "HS256", **claims: object) -> str:
    """A token for `mallory` that is good for a minute, but for what is said."""
    return jwt.encode({"sub": "mallory", "exp": time.time() + 3_600, **claims}, SECRET, algorithm)


def nobodys_token() -> str:
    """One that says of itself that it is not signed."""
    parts = [{"alg": "none", "typ": "JWT"}, {"sub": "mallory", "exp": time.time() + 60}]
    return ".".join([base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]) + "."


async def expired_token(siege: Siege) -> str:
    """A token of yesterday."""
    return await _refused(siege, passcode=token(exp=time.time() - 86_400))


async def unsigned_token(siege: Siege) -> str:
    """`alg:none`."""
    return await _refused(siege, passcode=nobodys_token())


async def forged_token(siege: Siege) -> str:
    """A token of another issuer's secret."""
    forged = jwt.encode({"sub": "mallory", "exp": time.time() + 60}, SECRET[::-1], "HS256")
    return await _refused(siege, Authorization=f"Bearer {forged}")


async def ticket_replay(siege: Siege) -> str:
    """A ticket that somebody has used already."""
    ticket = await trio.to_thread.run_sync(_ticket, siege)
    request = UPGRADE.replace(b"GET /ws ", f"GET /ws?ticket={ticket} ".encode())
    said = ""
    for expected in ("CONNECTED", "ERROR"):
        stream = await dial_stream(siege.address)
        await stream.send_all(request + ws(TEXT, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"))
        said = ""
        with trio.fail_after(10):
            while expected not in said:
                data = await stream.receive_some()
                assert data, f"no {expected} in {said!r}"
                said += data.decode(errors="replace")
        await stream.aclose()
    return said


def _ticket(siege: Siege) -> str:
    answer = httpx.post(f"{siege.gateway.http_url}/api/v1/tickets", headers={"Authorization": f"Bearer {token()}"})
    assert answer.status_code < 300, answer.text
    found: str = answer.json()["ticket"]
    return found


async def login_flood(siege: Siege) -> str:
    """A hundred guesses at once, again and again."""
    said: list[str] = []

    async def guess(number: int) -> None:
        said.append(await _refused(siege, login="alice", passcode=f"guess {number}"))

    for _ in range(3):
        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(guess, number)
    return "; ".join(sorted(set(said)))


async def _refused(siege: Siege, **headers: object) -> str:
    peer = await siege.dial()
    await peer.send_frame("CONNECT", accept_version="1.2", host="h", **headers)
    return await siege.told(peer)


# proxies


async def false_proxy(siege: Siege) -> str:
    """A PROXY header of somebody who is none."""
    stream = await dial_stream(siege.address)
    await stream.send_all(b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nCONNECT\naccept-version:1.2\n\n\0")
    with suppress(trio.BrokenResourceError):
        await read_all(stream)
    await stream.aclose()
    return ""


async def _pour(peer: Peer, *data: bytes) -> None:
    """Send until it is all sent, or the gateway takes no more.  Equal pieces are put into WebSocket frames once."""
    if not isinstance(peer.wire, WebSocketWire):
        return await _pour_raw(peer, data)
    return await _pour_raw(peer, [_framed(piece) for piece in data])


@functools.lru_cache(maxsize=16)
def _framed(piece: bytes) -> bytes:
    """In a WebSocket frame; to mask a large one takes this client longer than the gateway has to read it."""
    return ws(BINARY, piece)


async def _pour_raw(peer: Peer, data: Iterable[bytes]) -> None:
    """The same as it stands."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        for piece in data:
            await peer.wire.stream.send_all(piece)


TOKENS: dict[str, object] = {"jwt_keys": "{folder}/keys"}
KEYS = {"keys": SECRET}
HONEST = jwt.encode({"sub": "neighbour"}, SECRET, "HS256")

ATTACKS = (
    Attack(slow_loris, ("connect timeout", "connect_timeout"), settings={"connect_timeout": 1.5}),
    Attack(half_open, ("max_handshakes",), settings={"max_handshakes": 200}),
    Attack(header_flood, ("max_headers",)),
    Attack(header_flood_before_login, ("max_connect_headers",)),
    Attack(long_header, ("max_header_line",)),
    Attack(huge_content_length, ("max_body",)),
    Attack(endless_body, ("max_body",)),
    Attack(subscription_flood, ("max_subscriptions", "1000"), settings={"max_subscriptions": 1000}),
    Attack(transaction_flood, ("max_transactions", "64")),
    Attack(transaction_of_everything, ("max_transaction_octets",)),
    Attack(wildcard_explosion, ("wildcards", "6")),
    Attack(selector_bomb, ("selector",)),
    Attack(reader_that_never_reads, ("max_outbound",)),
    Attack(message_hoard, ("memory_limit",), settings={"memory_limit": "64MiB"}),
    Attack(half_frames, ("memory_mark",)),
    Attack(endless_fragments, ("max_body",), ("websocket",)),
    Attack(unmasked_frames, ("1002", "masked"), ("websocket",)),
    Attack(foreign_page, ("403", "allowed_origins"), ("websocket",)),
    Attack(expired_token, ("login refused",), settings=TOKENS, files=KEYS, passcode=HONEST),
    Attack(unsigned_token, ("login refused",), settings=TOKENS, files=KEYS, passcode=HONEST),
    Attack(forged_token, ("login refused",), settings=TOKENS, files=KEYS, passcode=HONEST),
    Attack(ticket_replay, ("login refused",), ("websocket",), settings=TOKENS, files=KEYS, passcode=HONEST),
    Attack(
        login_flood,
        ("login refused", "login_attempts"),
        settings={"users_file": "{folder}/users", "login_delay": 0.2, "login_attempts": 20},
        files={"users": "neighbour:{neighbour}\nalice:{alice}\n"},
        login="neighbour",
        passcode="good neighbours",
    ),
    Attack(
        false_proxy,
        ("trusted_proxies",),
        settings={"websocket_proxy_protocol": True, "trusted_proxies": "192.0.2.1"},
        kinds=("websocket",),
    ),
)


def settings_in(folder: Path, attack: Attack) -> dict[str, object]:
    """The attack's settings, with its files written."""
    from gateway.auth.passwords import hash_passcode

    for name, content in attack.files.items():
        hashes = {"neighbour": "", "alice": ""}
        if "{alice}" in content:
            hashes = {"neighbour": hash_passcode(attack.passcode), "alice": hash_passcode("alice's own")}
            content = content.format(**hashes)
        (folder / name).write_text(content)
    return {
        name: value.format(folder=folder) if isinstance(value, str) else value
        for name, value in attack.settings.items()
    }
