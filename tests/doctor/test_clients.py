"""The doctor's HTTP, WebSocket and STOMP, against servers that say what no gateway would."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import memory_stream_pair
from wsproto import ConnectionType
from wsproto.connection import Connection as WebSocket
from wsproto.events import CloseConnection, Ping, Pong, TextMessage

from gateway.doctor.clients import NoFrame, StompClient

ANSWER = b"CONNECTED\nversion:1.2\n\n\0\n"


async def client_of(data: bytes) -> StompClient:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(data)
    await theirs.send_eof()
    return StompClient(ours)


async def test_frames_and_heart_beats_are_told_apart() -> None:
    ours, theirs = memory_stream_pair()
    client = StompClient(ours)
    await theirs.send_all(b"CONNECTED\nuser-name:a\\cb\n\n\0\n")
    assert (await client.connect({})).headers == {"user-name": "a\\cb"}  # CONNECTED is not unescaped
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.frame)
        for data in (b"\n", b"\r\n", b"MESSAGE\na:\\c\ncontent-length:3\n\nx", b"\n"):
            await trio.testing.wait_all_tasks_blocked()
            await theirs.send_all(data)
        await trio.testing.wait_all_tasks_blocked()
        await theirs.send_all(b"y\0RECEIPT\nreceipt-id:1\n\nbody\0\n")
    assert client.heartbeats == 2
    receipt = await client.frame()
    assert (receipt.command, receipt.headers, receipt.body) == ("RECEIPT", {"receipt-id": "1"}, b"body")
    await theirs.aclose()
    with pytest.raises(NoFrame):
        await client.frame()


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400", b"\x15\x03\x03", b"ERROR\nno colon\n\n\0", b"ERROR\na:\xff\n\n\0", b"CONNECTED\nver"]
)
async def test_other_bytes_are_no_frame(data: bytes) -> None:
    with pytest.raises(NoFrame) as told:
        await (await client_of(data)).frame()
    assert told.value.start == data


async def test_sending_to_a_closed_connection_is_found_by_reading() -> None:
    for own in (None, WebSocket(ConnectionType.CLIENT)):
        ours, theirs = memory_stream_pair()
        await theirs.aclose()
        client = StompClient(ours, own)
        await client.send("SEND", {})
        with pytest.raises(NoFrame):
            await client.frame()


async def test_control_frames_are_seen() -> None:
    ours, theirs = memory_stream_pair()
    client = StompClient(ours, WebSocket(ConnectionType.CLIENT))
    server = WebSocket(ConnectionType.SERVER)
    text = TextMessage(ANSWER.decode())
    await theirs.send_all(b"".join(map(server.send, [Pong(), Ping(b"hi"), text, CloseConnection(1009, "too big\x07")])))
    assert (await client.frame()).command == "CONNECTED"
    assert client.pings == 1
    server.receive_data(await theirs.receive_some())
    assert [event.payload for event in server.events() if isinstance(event, Pong)] == [b"hi"]
    await theirs.aclose()
    with pytest.raises(NoFrame):
        await client.frame()
    assert client.close_reason == " (WebSocket close code 1009, 'too big')"
