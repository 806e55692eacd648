"""The doctor's own HTTP, WebSocket and STOMP, against peers that say what no gateway would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio_websocket
from trio.testing import memory_stream_pair

from gateway.doctor import http, silence, websocket
from gateway.doctor.dial import Dialler, HungUp, trusting
from gateway.doctor.finding import Level, Trouble, shown
from gateway.doctor.http import NoHttp
from gateway.doctor.orders import Orders
from gateway.doctor.stomp import NotStomp, Reply, Talk, TcpChannel
from gateway.doctor.websocket import WebSocketChannel
from gateway.transports.wire.websocket_framing import Opcode, close_frame, header
from tests.doctor import scene
from tests.gateway_process import HOST

Serve = Callable[[trio.SocketStream], Awaitable[None]]


async def talking(octets: bytes) -> Talk:
    """A conversation in which the server says this, and hangs up."""
    ours, theirs = memory_stream_pair()
    await theirs.send_all(octets)
    await theirs.send_eof()
    return Talk(TcpChannel(ours))


async def test_frames() -> None:
    talk = await talking(
        b"\n\r\nMESSAGE\na:\\c\ncontent-length:3\n\nx\0y\0\nRECEIPT\nreceipt-id:1\n\nbody\0ERROR\n\n\0"
    )
    assert await talk.frame() == Reply("MESSAGE", {"a": ":", "content-length": "3"}, b"x\0y")
    assert talk.beats == 2
    assert await talk.frame() == Reply("RECEIPT", {"receipt-id": "1"}, b"body")
    assert await talk.frame() == Reply("ERROR")
    assert talk.beats == 3
    with pytest.raises(HungUp):
        await talk.frame()


@pytest.mark.parametrize(
    "octets", [b"HTTP/1.1 400", b"\x15\x03\x03", b"MESSAGE\nno colon\n\n\0", b"ERROR\na:\xff\n\n\0"]
)
async def test_what_is_no_frame(octets: bytes) -> None:
    with pytest.raises(NotStomp) as told:
        await (await talking(octets)).frame()
    assert told.value.octets == octets


async def test_a_frame_that_is_cut_off() -> None:
    with pytest.raises(HungUp) as told:
        await (await talking(b"CONNECTED\nver")).frame()
    assert told.value.octets == b"CONNECTED\nver"


async def test_a_peer_that_has_gone() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.aclose()
    for channel in (TcpChannel(ours), WebSocketChannel(ours)):
        with pytest.raises(HungUp):
            await channel.send(b"x")


async def test_messages_of_every_size(nursery: trio.Nursery) -> None:
    """trio-websocket checks what we write, and answers it."""

    async def echo(request: trio_websocket.WebSocketRequest) -> None:
        connection = await request.accept(subprotocol="v12.stomp")
        while True:
            await connection.send_message(await connection.get_message())

    serve = partial(trio_websocket.serve_websocket, echo, HOST, 0, None)
    server = await nursery.start(serve)
    _, channel = await websocket.upgrade(Dialler(5, trusting()), scene.websocket(server.port))
    assert channel is not None
    for size in (0, 1, 125, 126, 65_535, 65_536, 200_000):
        received = bytearray()
        await channel.send(b"x" * size)
        received += await channel.receive()
        while len(received) < size:
            received += await channel.receive()
        assert received == b"x" * size
    await channel.aclose()
    nursery.cancel_scope.cancel()


async def test_a_message_without_bounds() -> None:
    ours, _ = memory_stream_pair()
    channel = WebSocketChannel(ours, header(Opcode.BINARY, 1 << 40))
    with pytest.raises(HungUp):
        await channel.receive()


async def test_control_frames() -> None:
    ours, theirs = memory_stream_pair()
    channel = WebSocketChannel(ours, header(Opcode.PONG, 0) + header(Opcode.PING, 2) + b"hi")
    await theirs.send_all(header(Opcode.TEXT, 1) + b"x" + close_frame(1009, "too big\x07"))
    assert await channel.receive() == b"x"
    assert channel.pinged.is_set()
    assert (await theirs.receive_some())[0] & 15 == Opcode.PONG
    with pytest.raises(HungUp):
        await channel.receive()
    assert channel.ending == "WebSocket close code 1009, 'too big'"


async def served(serve: Serve, nursery: trio.Nursery) -> int:
    (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host=HOST))
    return int(listener.socket.getsockname()[1])


def saying(answer: bytes, *, stays: bool = False) -> Serve:
    """A server that reads a request, says this, and hangs up."""

    async def serve(stream: trio.SocketStream) -> None:
        request = b""
        while b"\n\n" not in request and b"\r\n\r\n" not in request:
            chunk = await stream.receive_some()
            if not chunk:
                return
            request += chunk
        await stream.send_all(answer)
        if stays:
            await trio.sleep_forever()

    return serve


async def test_an_answer_to_another_upgrade(nursery: trio.Nursery) -> None:
    answer = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: other\r\n\r\n"
    port = await served(saying(answer), nursery)
    found = await scene.look(websocket=(scene.websocket(port),), patience=1.0)
    assert "Switch off the cache" in scene.only(found, "upgrade").remedy


@pytest.mark.parametrize(
    ("answer", "detail", "remedy"),
    [
        (b"301 Moved\r\nLocation: https://a/", "it is sent elsewhere (301)", "dial wss://127.0.0.1/ws"),
        (b"401 Unauthorized\r\nServer: x", "the proxy refuses it: 401", "auth_basic"),
        (b"403 Forbidden\r\nServer: x", "the proxy refuses it: 403", "deny"),
        (b"429 Too Many", "429", "max_connections_per_address"),
        (b"500 Oh", "it was refused: 500", "logs"),
        (b"504 Slow", "the proxy does not reach the gateway (504)", "proxy_pass"),
        (b"200 OK\r\nContent-Length: 4", "there is no WebSocket at /ws: 200", "location = /ws"),
        (b"426 Upgrade Required\r\nServer: x", "the request for it does not come through: 426", "proxy_http_version"),
        (b"400 Bad Request\r\nServer: x", "the request for it does not come through: 400", "proxy_http_version"),
        (
            b"400 Bad Request",
            "what stands in front of the gateway seems to send a PROXY",
            "websocket_proxy_protocol = true",
        ),
    ],
)
async def test_refusals(nursery: trio.Nursery, answer: bytes, detail: str, remedy: str) -> None:
    length = b"" if b"Content-Length" in answer else b"Content-Length: 0\r\n"
    port = await served(saying(b"HTTP/1.1 " + answer + b"\r\n" + length + b"\r\n", stays=True), nursery)
    found = await scene.look(websocket=(scene.websocket(port),), patience=0.4)
    fault = scene.only(found, "upgrade")
    assert detail in fault.detail
    assert remedy in fault.remedy


async def test_words_of_a_refusal_without_an_end(nursery: trio.Nursery) -> None:
    port = await served(saying(b"HTTP/1.1 500 \r\n\r\nwhy\x1b not", stays=True), nursery)
    answer, channel = await websocket.upgrade(Dialler(0.2, trusting()), scene.websocket(port))
    assert (str(answer), channel) == ("500, 'why not'", None)
    port = await served(saying(b"HTTP/1.1 500 \r\nContent-Length: 9\r\n\r\nwhy"), nursery)
    answer, _ = await websocket.upgrade(Dialler(0.2, trusting()), scene.websocket(port))
    assert str(answer) == "500"


async def test_a_head_that_does_not_end(nursery: trio.Nursery) -> None:
    port = await served(saying(b"HTTP/1.1 101 Switching"), nursery)
    with pytest.raises(NoHttp) as told:
        await websocket.upgrade(Dialler(1, trusting()), scene.websocket(port))
    assert told.value.octets == b"HTTP/1.1 101 Switching"


async def test_the_gateway_says_no_more(nursery: trio.Nursery) -> None:
    """CONNECTED, and then an ERROR at each message."""

    async def serve(stream: trio.SocketStream) -> None:
        async for chunk in stream:
            if chunk.startswith(b"CONNECT"):
                await stream.send_all(b"CONNECTED\nheart-beat:0,0\n\n\0")
            if b"SEND\n" in chunk:
                await stream.send_all(b"ERROR\nmessage:the end\n\nof it\0")

    port = await served(serve, nursery)
    found = await scene.look(tcp=(scene.tcp(port),), idle=0.3)
    assert scene.only(found, "message").detail == "a message of 6 octets is refused: ERROR the end: of it"
    assert "heartbeat_send = 250" in scene.only(found, "heart-beats", Level.WARN).remedy


async def test_a_silence_that_the_server_ends() -> None:
    talk = await talking(b"ERROR\nmessage:the end\n\n\0")
    found = await silence._until_ping(talk, Orders(idle=1), "a")
    assert f"{found}" == "FAIL a: ended after 0 s: the end. Do what it says"


async def test_a_proxy_that_changes_its_mind(nursery: trio.Nursery) -> None:
    """Who is refused from the second time on."""
    answers = iter([b"HTTP/1.1 403 \r\nContent-Length: 15\r\n\r\nallowed_origins", b"nothing", b"", b""])

    async def serve(stream: trio.SocketStream) -> None:
        await saying(next(answers))(stream)

    port = await served(serve, nursery)
    found = await scene.look(websocket=(scene.websocket(port),), patience=0.5)
    assert [each.what.split()[-1] for each in found] == [f"ws://{HOST}:{port}/ws", "upgrade"]


async def test_a_session_that_is_ended(nursery: trio.Nursery) -> None:
    """Heart-beats do not come through, so the server ends it; and one that cannot begin."""
    sessions = iter(range(100))

    async def serve(stream: trio.SocketStream) -> None:
        number = next(sessions)
        async for chunk in stream:
            if chunk.startswith(b"CONNECT") and b"heart-beat" in chunk:
                ended = b"ERROR\nmessage:heart-beat timed out\n\nnothing came\0"
                await stream.send_all((b"CONNECTED\nheart-beat:100,100\n\n\0" if number < 5 else b"") + ended)
            elif chunk.startswith(b"CONNECT"):
                await stream.send_all(b"CONNECTED\n\n\0")
            elif b"SEND\n" in chunk:
                _, _, body = chunk.partition(b"content-length:")
                length, _, rest = body.partition(b"\n\n")
                while len(rest) <= int(length):
                    rest += await stream.receive_some()
                await stream.send_all(b"MESSAGE\ncontent-length:%b\n\n%b" % (length, rest))

    port = await served(serve, nursery)
    found = await scene.look(tcp=(scene.tcp(port),), idle=1.0)
    fault = scene.only(found, "heart-beats")
    assert "the gateway ended it after 0 s: heart-beat timed out: nothing came" in fault.detail
    assert scene.only(found, "large message", Level.OK)


async def test_pages_without_an_end(nursery: trio.Nursery) -> None:
    port = await served(saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), nursery)
    answer = await http.get(Dialler(1, trusting()), scene.http(port), "/")
    assert (answer.status, answer.body) == (200, b"{}")


def test_what_is_shown() -> None:
    assert shown("a\x1b[2J\n\n b" + "c" * 200).startswith("a [2J bccc")
    assert len(shown("c" * 200)) == 160
    assert shown(b"\xff") == "\ufffd"


def test_trouble() -> None:
    assert str(Trouble("it is broken", "Mend it", Level.WARN).finding("a")) == "warn a: it is broken. Mend it"
