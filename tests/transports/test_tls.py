"""The pipe that carries TLS: every byte once and in order, whatever the pipe below takes; how it begins and ends."""

from __future__ import annotations

import _ssl
import ctypes
import ssl
from collections.abc import Callable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from gateway.transports.wire.link import BrokenLink, Buffers, advance
from gateway.transports.wire.tls import HandshakeError, TlsPipe

from . import tls_files
from .pipes import ControlledPipe, StreamPipe

parametrize = pytest.mark.parametrize


async def shake_hands(pipe: TlsPipe, client: trio.SSLStream[trio.abc.Stream]) -> None:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.do_handshake)
            await pipe.handshake()


def ends(pipe: TlsPipe, stream: trio.abc.Stream) -> tuple[TlsPipe, trio.SSLStream[trio.abc.Stream]]:
    return pipe, trio.SSLStream(stream, tls_files.of_clients(), server_hostname=tls_files.HOST)


async def in_memory() -> tuple[TlsPipe, trio.SSLStream[trio.abc.Stream]]:
    theirs, ours = memory_stream_pair()
    pipe, client = ends(TlsPipe(StreamPipe(ours), tls_files.of_server()), theirs)
    await shake_hands(pipe, client)
    return pipe, client


async def through(valve: ControlledPipe) -> tuple[TlsPipe, trio.SSLStream[trio.abc.Stream]]:
    pipe, client = ends(TlsPipe(valve, tls_files.of_server()), valve.end)
    await shake_hands(pipe, client)
    return pipe, client


def new_keys(client: trio.SSLStream[trio.abc.Stream], times: int, *, wants_answer: bool) -> bytes:
    """KeyUpdate records of TLS 1.3, which Python's module has no word for: OpenSSL is asked itself."""
    library = ctypes.CDLL(_ssl.__file__)
    # Behind the head of the object and a reference to its socket stands OpenSSL's own.
    inner: object = vars(client)["_ssl_object"]._sslobj
    known = ctypes.c_void_p.from_address(id(inner) + object.__basicsize__ + 8)
    for _ in range(times):
        assert library.SSL_key_update(known, int(wants_answer)) == 1
        assert library.SSL_do_handshake(known) == 1
    return client._outgoing.read()


async def read(stream: trio.abc.Stream, nbytes: int) -> bytes:
    found = b""
    with trio.fail_after(10):
        while len(found) < nbytes:
            more = await stream.receive_some(nbytes - len(found))
            assert more, found
            found += more
    return found


async def write(pipe: TlsPipe, buffers: Buffers) -> None:
    """As a connection writes: at once what goes, and the rest as it can."""
    left = advance(buffers, pipe.send_nowait(buffers))
    while left:
        left = advance(left, await pipe.send_some(left))


LARGE = bytes(range(256)) * 4096


class TestBytes:
    async def test_much(self, nursery: trio.Nursery) -> None:
        pipe, client = await in_memory()
        nursery.start_soon(write, pipe, [b"a", LARGE, b"b", LARGE[:20_000], LARGE[:40_000], b"c"])
        assert await read(client, len(LARGE) + 60_003) == b"a" + LARGE + b"b" + LARGE[:20_000] + LARGE[:40_000] + b"c"
        nursery.start_soon(client.send_all, LARGE)
        found = b""
        while len(found) < len(LARGE):
            found += await pipe.receive(65_536)
        assert found == LARGE


class TestSlow:
    """The pipe below takes some bytes of a record, and no more."""

    @parametrize("some", [True, False])
    async def test_a_caller_that_gave_up_and_sends_other_bytes(self, some: bool) -> None:
        valve = ControlledPipe()
        pipe, client = await through(valve)
        valve.room = 10
        assert pipe.send_nowait([b"pong"]) == 0
        valve.open()
        buffers: Buffers = [b"ERROR"]
        assert (await pipe.send_some(buffers) if some else pipe.send_nowait(buffers)) == 5
        assert await read(client, 9) == b"pongERROR"

    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(st.integers(1, 50_000), min_size=1, max_size=6),
        st.lists(st.integers(0, 30_000), min_size=1, max_size=30),
    )
    def test_every_byte_once_and_in_order(self, sizes: list[int], rooms: list[int]) -> None:
        parts = [bytes([65 + place]) * size for place, size in enumerate(sizes)]

        async def main() -> None:
            valve = ControlledPipe()
            pipe, client = await through(valve)
            valve.room = 0
            left: Buffers = list(parts)
            for room in rooms:
                valve.open(room)
                left = advance(left, pipe.send_nowait(left)) if left else left
            valve.open()
            if left:
                await write(pipe, left)
            assert await read(client, sum(sizes)) == b"".join(parts)

        trio.run(main)

    async def test_cancelled_when_all_is_out(self, nursery: trio.Nursery) -> None:
        """What went is told, or never went: else it would go twice."""
        valve = ControlledPipe()
        pipe, client = await through(valve)
        left: Buffers = [b"hello"]

        async def send() -> None:
            nonlocal left
            left = advance(left, await pipe.send_some(left))

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as writers:
                writers.start_soon(send)
                await trio.lowlevel.checkpoint()
                scope.cancel()
        if left:
            await write(pipe, left)
        await write(pipe, [b" world"])
        assert await read(client, 11) == b"hello world"

    async def test_the_peer_goes(self) -> None:
        valve = ControlledPipe()
        pipe, _ = await through(valve)
        valve.room = 10
        assert pipe.send_nowait([b"hello"]) == 0
        valve.hang_up()
        with pytest.raises(BrokenLink):
            pipe.send_nowait([b"hello"])
        with pytest.raises(BrokenLink):
            await pipe.send_some([b"hello"])
        await pipe.send_eof()
        assert pipe.peer_has_gone()

    async def test_unread_bytes(self) -> None:
        pipe, client = await through(ControlledPipe())
        assert not pipe.has_bytes()
        await client.send_all(b"hello")
        assert pipe.has_bytes()
        assert await pipe.receive(100) == b"hello"
        assert not pipe.has_bytes()
        await client.send_all(b"hello")
        assert await pipe.receive(1) == b"h"
        assert pipe.has_bytes()


class TestRecordsThatCarryNothing:
    """OpenSSL takes any number of new keys, and keeps an answer to each that asks for one."""

    @parametrize("wants_answer", [False, True])
    async def test_a_flood(self, wants_answer: bool) -> None:
        valve = ControlledPipe()
        pipe, client = await through(valve)
        valve.push(new_keys(client, 20_000, wants_answer=wants_answer))
        assert await pipe.receive(16_384) == b""
        assert await pipe.receive(16_384) == b""

    @parametrize("takes", [True, False])
    async def test_answers_that_the_peer_takes_or_not(self, takes: bool) -> None:
        """Bytes for us in between do not help a peer that does not take the answers."""
        valve = ControlledPipe()
        pipe, client = await through(valve)
        received = 0
        for _ in range(20):
            valve.push(new_keys(client, 20, wants_answer=True))
            await client.send_all(b"x")
            received += len(await pipe.receive(16_384))
            if takes:
                assert pipe.send_nowait([b"y"]) == 1
        assert received == 20 if takes else received < 20
        if takes:
            assert await read(client, 20) == b"y" * 20


class TestEnd:
    async def test_ours(self) -> None:
        """Said within TLS, and reading goes on."""
        pipe, client = await in_memory()
        assert await pipe.send_some([b"last"]) == 4
        await pipe.send_eof()
        assert await read(client, 4) == b"last"
        assert await client.receive_some() == b""
        await client.send_all(b"more")
        assert await pipe.receive(100) == b"more"
        with pytest.raises(BrokenLink):
            pipe.send_nowait([b"x"])

    @parametrize("how", ["close_notify", "no word", "a broken record"])
    async def test_theirs(self, how: str) -> None:
        pipe, client = await in_memory()
        await client.send_all(b"last")
        if how == "close_notify":
            await client.aclose()
        elif how == "no word":
            await client.transport_stream.aclose()
        else:
            await client.transport_stream.send_all(b"\x17\x03\x03\0\x20" + b"x" * 32)
        assert [await pipe.receive(3), await pipe.receive(3)] == [b"las", b"t"]
        assert await pipe.receive(100) == b""


class TestHandshake:
    async def refused(self, talk: Callable[[trio.abc.Stream], object], context: ssl.SSLContext | None = None) -> str:
        theirs, ours = memory_stream_pair()
        pipe = TlsPipe(StreamPipe(ours), context or tls_files.of_server())
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(talk, theirs)  # type: ignore[arg-type]
                with pytest.raises(HandshakeError) as caught:
                    await pipe.handshake()
                nursery.cancel_scope.cancel()
        self.data = caught.value.data
        return str(caught.value)

    async def test_a_peer_that_does_not_read(self) -> None:
        """It is gone when our part of the handshake is due."""
        valve = ControlledPipe()
        pipe, client = ends(TlsPipe(valve, tls_files.of_server()), valve.end)
        valve.broken = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.do_handshake)
            with pytest.raises(HandshakeError, match="the peer closed during the TLS handshake"):
                await pipe.handshake()
            nursery.cancel_scope.cancel()

    @parametrize("data", [b"CONNECT\n", b"GET / HTTP/1.1\r\n", b"\x16", b"\0", b"\x16\x02", b""])
    async def test_no_tls(self, data: bytes) -> None:
        async def talk(stream: trio.abc.Stream) -> None:
            if data:
                await stream.send_all(data)
            await stream.aclose()

        reason = await self.refused(talk)
        if b"\x16\x03".startswith(data):
            assert reason == ("the peer closed during the TLS handshake" if data else "")
        else:
            assert (reason, self.data) == ("the peer does not speak TLS", data)

    async def test_a_certificate_of_an_unknown_authority(self) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls_files.server().configure_cert(server)
        tls_files.authority().configure_trust(server)
        server.verify_mode = ssl.CERT_REQUIRED
        context = tls_files.client_with(tls_files.stranger().issue_cert("worker"))

        async def talk(stream: trio.abc.Stream) -> None:
            client = trio.SSLStream(stream, context, server_hostname=tls_files.HOST)
            with pytest.raises(trio.BrokenResourceError):
                await client.receive_some()  # of TLS 1.3 a client hears it behind its own handshake

        reason = await self.refused(talk, server)
        assert reason.startswith("the client's certificate is not one that tls_client_ca vouches for")
