"""What hostile clients do: an attack does its worst once, in bounded time and volume, and returns what it was told."""

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
    run: Run
    names: tuple[str, ...]  # words that must be told, or stand in the log
    kinds: tuple[str, ...] = BOTH  # the transports that it comes by
    settings: dict[str, object] = field(default_factory=dict)  # a value `{folder}/...` is a file that `files` has
    files: dict[str, str] = field(default_factory=dict)  # name -> content
    login: str = ""  # of the neighbour, where one must log in
    passcode: str = ""

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", " ")


def pouring(name: str, *data: bytes, stranger: bool = False, raw: bool = False) -> Run:
    """An attack that sends bytes until it is told why not; `raw` ones are no payload of WebSocket frames."""

    async def pour(siege: Siege) -> str:
        peer = await siege.dial() if stranger else await siege.log_in()
        await (_pour_raw(peer, data) if raw else _pour(peer, *data))
        return await siege.told(peer)

    pour.__name__ = name
    return pour


def showing(name: str, token: Callable[[], str]) -> Run:
    """An attack by a token that is not good."""

    async def show(siege: Siege) -> str:
        return await _refused(siege, passcode=token())

    show.__name__ = name
    return show


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


# logged in


async def reader_that_never_reads(siege: Siege) -> str:
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


def token(secret: str = SECRET, **claims: object) -> str:
    """A token for `mallory` that is good for an hour, but for what is said."""
    return jwt.encode({"sub": "mallory", "exp": time.time() + 3_600, **claims}, secret, "HS256")


def nobodys_token() -> str:
    """One that says of itself that it is not signed."""
    parts = [{"alg": "none", "typ": "JWT"}, {"sub": "mallory", "exp": time.time() + 60}]
    return ".".join([base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]) + "."


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
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        for piece in data:
            await peer.wire.stream.send_all(piece)


def _headers(count: int) -> bytes:
    return b"".join([b"h%d:v\n" % number for number in range(count)]) + b"\n\0"


SEND = b"SEND\ndestination:/queue/a\n"
IN_TRANSACTION = frame("SEND", b"x" * MIB, destination="/queue/a", transaction="t", content_length=MIB)
BOMB = "(" * 5_000 + "a=1" + ")" * 5_000
FRAGMENTS = [ws(TEXT, SEND + b"\n", fin=False), *[ws(CONTINUATION, b"x" * 1000, fin=False) * 100] * 500]
TOKENS: dict[str, object] = {"jwt_keys": "{folder}/keys"}
KEYS = {"keys": SECRET}
HONEST = jwt.encode({"sub": "neighbour"}, SECRET, "HS256")

ATTACKS = (
    Attack(slow_loris, ("connect timeout", "connect_timeout"), settings={"connect_timeout": 1.5}),
    Attack(half_open, ("max_handshakes",), settings={"max_handshakes": 200}),
    Attack(pouring("header_flood", SEND + _headers(2_000)), ("max_headers",)),
    Attack(pouring("header_flood_before_login", b"CONNECT\n" + _headers(200), stranger=True), ("max_connect_headers",)),
    Attack(pouring("long_header", b"SEND\ndestination:" + b"x" * MIB), ("max_header_line",)),
    Attack(pouring("huge_content_length", SEND + b"content-length:99999999999999\n\n"), ("max_body",)),
    Attack(pouring("endless_body", SEND + b"\n", *[b"x" * MIB] * 64), ("max_body",)),
    Attack(
        pouring("subscription_flood", *[frame("SUBSCRIBE", id=n, destination=f"/topic/{n}") for n in range(1_001)]),
        ("max_subscriptions", "1000"),
        settings={"max_subscriptions": 1000},
    ),
    Attack(
        pouring("transaction_flood", *[frame("BEGIN", transaction=n) for n in range(100)]), ("max_transactions", "64")
    ),
    Attack(
        pouring("transaction_of_everything", frame("BEGIN", transaction="t"), *[IN_TRANSACTION] * 64),
        ("max_transaction_bytes",),
    ),
    Attack(
        pouring("wildcard_explosion", frame("SUBSCRIBE", id=1, destination="/topic/" + ".".join(["#.*"] * 20))),
        ("wildcards", "6"),
    ),
    Attack(pouring("selector_bomb", frame("SUBSCRIBE", id=1, destination="/topic/a", selector=BOMB)), ("selector",)),
    Attack(reader_that_never_reads, ("max_outbound",)),
    Attack(message_hoard, ("memory_limit",), settings={"memory_limit": "64MiB"}),
    Attack(half_frames, ("memory_mark",)),
    Attack(pouring("endless_fragments", *FRAGMENTS, raw=True), ("max_body",), ("websocket",)),
    Attack(
        pouring("unmasked_frames", ws(TEXT, SEND + b"\n\0", mask=None), raw=True), ("1002", "masked"), ("websocket",)
    ),
    Attack(foreign_page, ("403", "allowed_origins"), ("websocket",)),
    Attack(
        showing("expired_token", lambda: token(exp=time.time() - 86_400)),
        ("login refused",),
        settings=TOKENS,
        files=KEYS,
        passcode=HONEST,
    ),
    Attack(showing("unsigned_token", nobodys_token), ("login refused",), settings=TOKENS, files=KEYS, passcode=HONEST),
    Attack(
        showing("forged_token", lambda: token(SECRET[::-1])),
        ("login refused",),
        settings=TOKENS,
        files=KEYS,
        passcode=HONEST,
    ),
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
