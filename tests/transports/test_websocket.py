"""The upgrade: whom it lets in, what it answers the others, and what becomes of bytes that come with the request."""

from __future__ import annotations

import base64
import hashlib

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from gateway.transports.accept.websocket import (
    Conditions,
    Refusal,
    WebSocketLink,
    accept,
    check_origin,
    check_request,
    choose_subprotocol,
)

from .peers import BINARY, TEXT, ws
from .pipes import ControlledPipe, StreamPipe


def fields(origin: str | None, host: str | None) -> dict[str, str]:
    """Header fields of an upgrade request, those that are there."""
    return {name: value for name, value in (("origin", origin), ("host", host)) if value is not None}


requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
BASIC = {
    "Host": "gateway.example:15674",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}


def request(path: str = "/ws", **changes: str | None) -> bytes:
    """An upgrade request; a field of None is left out."""
    fields = {**BASIC, **{name.replace("_", "-"): value for name, value in changes.items()}}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()


@requirement("WST-01", "WST-02", "WST-11")
@parametrize(
    ("offered", "chosen"),
    [
        ([], None),
        (["v10.stomp", "v11.stomp", "v12.stomp"], "v12.stomp"),
        (["v11.stomp", "v10.stomp", "mqtt"], "v11.stomp"),
        (["mqtt", "V12.STOMP"], "none"),
    ],
)
def test_the_best_subprotocol_of_those_offered(offered: list[str], chosen: str | None) -> None:
    found = choose_subprotocol(offered)
    if chosen == "none":
        assert isinstance(found, Refusal)
        assert (found.status, "v12.stomp, v11.stomp, v10.stomp" in found.reason) == (400, True)
    else:
        assert found == chosen


class TestOrigin:
    """Which lists of origins name which page stands in `tests/net/test_origins.py`."""

    @parametrize(
        ("origin", "host", "allowed", "words"),
        [
            (None, "gateway.example", (), ""),
            ("http://GATEWAY.example", "gateway.EXAMPLE:80", (), ""),
            ("http://127.0.0.2", "[::1]:15674", (), ""),
            ("https://one.page.example", "gateway.example", ("https://*.page.example",), ""),
            ("null", "gateway.example", ("*",), ""),
            ("https://page.example:8443", "gateway.example", (), "add it to allowed_origins"),
            ("https://evil.example", None, (), "add it to allowed_origins"),
            ("http://gateway.example", "[", (), "add it to allowed_origins"),
            ("null", "gateway.example", (), "no entry of allowed_origins but * could name it"),
            ("http://[", "gateway.example", (), "no entry of allowed_origins but * could name it"),
        ],
    )
    def test_let_in_or_refused(
        self, origin: str | None, host: str | None, allowed: tuple[str, ...], words: str
    ) -> None:
        refusal = check_origin(fields(origin, host), allowed, open_to_all=False)
        assert refusal == (Refusal(403, f"the origin {origin!r} is not allowed; {words}") if words else None)

    def test_a_name_can_where_anonymous_clients_may_come(self) -> None:
        """A page whose own name was made to mean 127.0.0.1 has the same Origin and Host, and no proxy in front."""
        rebound = fields("http://evil.example:15674", "evil.example:15674")
        assert isinstance(check_origin(rebound, (), open_to_all=True), Refusal)
        assert check_origin(rebound, (), open_to_all=False) is None
        assert check_origin({**rebound, "x-forwarded-for": "192.0.2.7"}, (), open_to_all=True) is None
        assert check_origin(rebound, ("http://evil.example:15674",), open_to_all=True) is None
        assert check_origin(fields("http://localhost:8000", "[::1]:15674"), (), open_to_all=True) is None


class Upgrade:
    """An opening handshake in memory: the server's side at work, the client's end in the test's hands."""

    def __init__(self, nursery: trio.Nursery, *, path: str = "/ws", origins: tuple[str, ...] = ()) -> None:
        self.stream, ours = memory_stream_pair()
        self.pipe = StreamPipe(ours)
        self.result: WebSocketLink | Refusal | None = None
        self._done = trio.Event()
        nursery.start_soon(self._accept, path, origins)

    async def _accept(self, path: str, origins: tuple[str, ...]) -> None:
        self.result = await accept(self.pipe, "peer", Conditions(path, origins))
        self._done.set()

    async def outcome(self) -> WebSocketLink | Refusal:
        with trio.fail_after(30):
            await self._done.wait()
        assert self.result is not None
        return self.result

    async def link(self) -> WebSocketLink:
        result = await self.outcome()
        assert isinstance(result, WebSocketLink), result
        return result

    async def refusal(self) -> Refusal:
        result = await self.outcome()
        assert isinstance(result, Refusal), result
        return result

    async def response(self) -> tuple[int, dict[str, str], str]:
        """Status, fields and body of the HTTP response; nothing may stand behind it."""
        await self.outcome()
        with trio.fail_after(30):
            data = bytes(await self.stream.receive_some())
        head, _, body = data.decode().partition("\r\n\r\n")
        status, *lines = head.split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        return int(status.split()[1]), {name.lower(): value for name, value in fields.items()}, body


class TestAccept:
    @requirement("WST-01", "WST-02")
    @parametrize("offer", [None, "v10.stomp, v11.stomp"])
    async def test_the_response(self, nursery: trio.Nursery, offer: str | None) -> None:
        """Browsers offer permessage-deflate; our framing has no extension."""
        upgrade = Upgrade(nursery)
        extension = "permessage-deflate; client_max_window_bits"
        await upgrade.stream.send_all(request(Sec_WebSocket_Protocol=offer, Sec_WebSocket_Extensions=extension))
        status, fields, body = await upgrade.response()
        digest = hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        assert (status, body) == (101, "")
        assert fields["sec-websocket-accept"] == base64.b64encode(digest).decode()
        assert fields.get("sec-websocket-protocol") == (offer and offer.rpartition(" ")[2])
        assert "sec-websocket-extensions" not in fields
        assert (await upgrade.link()).peer == "peer"

    @requirement("FRM-09", "CON-11", "WST-04")
    @parametrize("cut", [0, 1, 5, 200])
    async def test_bytes_behind_the_request_are_kept(self, nursery: trio.Nursery, cut: int) -> None:
        """A client need not wait for the response; what it sent early is read as if it came late."""
        upgrade = Upgrade(nursery)
        data = request() + ws(TEXT, b"early") + ws(BINARY, b"more")
        place = len(request()) + cut - 3
        await upgrade.stream.send_all(data[:place])
        await trio.testing.wait_all_tasks_blocked()
        await upgrade.stream.send_all(data[place:])
        link = await upgrade.link()
        received = b""
        while len(received) < 9:
            received += await link.receive(100) or b""
        assert received == b"earlymore"

    async def test_an_idle_websocket_has_no_task_of_its_own(self, nursery: trio.Nursery) -> None:
        """The library's reader ends with the handshake; a silent peer has not even that."""
        before = trio.lowlevel.current_statistics().tasks_living
        upgrades = [Upgrade(nursery) for _ in range(5)]
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before + 5
        for upgrade in upgrades:
            await upgrade.stream.send_all(request())
            await upgrade.link()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before


class TestRefuse:
    @parametrize(
        ("data", "status", "reason"),
        [
            (request("/other"), 404, "STOMP over WebSocket is at /ws"),
            (request(Origin="https://evil.example"), 403, "not allowed"),
            (request(Sec_WebSocket_Protocol="mqtt"), 400, "subprotocols"),
            # What trio-websocket takes for something else than we would, or a proxy in front.
            (request(Origin="https://evil.example").replace(b"\r\n", b"\n"), 400, "CR LF"),
            (request(X="a\r\n folded"), 400, "CR LF"),
            (request().replace(b"HTTP/1.1", b"HTTP/1.0"), 400, "HTTP/1.1"),
            (request(Content_Length="5") + b"hello", 400, "without a body"),
        ],
    )
    async def test_with_words(self, nursery: trio.Nursery, data: bytes, status: int, reason: str) -> None:
        upgrade = Upgrade(nursery)
        await upgrade.stream.send_all(data)
        answered, _, body = await upgrade.response()
        assert answered == status
        assert reason in body
        refusal = await upgrade.refusal()
        assert refusal.status == status
        assert reason in refusal.reason

    @requirement("FRM-13")
    @parametrize(
        "data",
        [
            b"GET /ws HTTP/1.1\r\nHost: h\r\n\r\n",
            request(Sec_WebSocket_Key=None),
            b"\xff\xfe\r\n\r\n",
            b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\xaa" * 300,
        ],
        ids=["no upgrade", "no key", "no HTTP", "STOMP", "TLS"],
    )
    async def test_what_is_no_upgrade(self, nursery: trio.Nursery, data: bytes, autojump_clock: MockClock) -> None:
        """No line of STOMP or TLS looks like the end of a request, and none is waited for."""
        upgrade = Upgrade(nursery)
        await upgrade.stream.send_all(data)
        refusal = await upgrade.refusal()
        assert refusal.status == 400
        assert refusal.reason

    async def test_a_peer_that_leaves_half_way(self, nursery: trio.Nursery) -> None:
        for data in (b"", b"GET /ws HT", request()[:-2]):
            upgrade = Upgrade(nursery)
            await upgrade.stream.send_all(data)
            await upgrade.stream.aclose()
            assert (await upgrade.refusal()).status == 400

    async def test_what_is_no_upgrade_of_a_peer_that_leaves_before_the_response(self) -> None:
        valve = ControlledPipe()
        valve.push(b"garbage\r\n\r\n")
        valve.hang_up()
        assert isinstance(await accept(valve, "peer", Conditions("/ws")), Refusal)

    async def test_a_request_without_end(self, nursery: trio.Nursery) -> None:
        """Of some 16 KiB no more is read."""
        upgrade = Upgrade(nursery)
        sent = 0
        await upgrade.stream.send_all(b"GET /ws HTTP/1.1\r\n")
        while upgrade.result is None and sent < 100_000:
            await upgrade.stream.send_all(b"X-Padding: 0123456789\r\n" * 10)
            sent += 230
            await trio.testing.wait_all_tasks_blocked()
        assert (await upgrade.refusal()).status == 400
        assert sent < 20_000


class TestLink:
    async def test_small_frames_come_in_smaller_reads(self) -> None:
        """A large read of them would be unmasked in one go."""
        sizes: list[int] = []

        class Measured(StreamPipe):
            async def receive(self, size: int) -> bytes:
                sizes.append(size)
                return await super().receive(size)

        theirs, ours = memory_stream_pair()
        link = WebSocketLink(Measured(ours), "somebody")
        data = ws(BINARY, b"x" * 200_000)
        await theirs.send_all(data)
        received = 0
        while received < 200_000:
            received += len(await link.receive(65_536) or b"")
        small = 32 * 1024
        assert sizes == [small, 65_536, 65_536, small, small]
        assert len(data) - small - 2 * 65_536 > small


def test_the_path_is_looked_at_before_the_origin() -> None:
    conditions = Conditions("/ws", open_to_all=True)
    evil = {"origin": "https://evil.example"}
    assert check_request("/ws?token=/other", {}, conditions) is None
    for path in ("/", "/ws/", "/WS", "/other?/ws"):
        assert check_request(path, evil, conditions) == Refusal(404, "STOMP over WebSocket is at /ws")
