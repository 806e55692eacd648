"""What the doctor's client sees of a WebSocket beside frames; all else its checks of real gateways show."""

from __future__ import annotations

import pytest
from trio.testing import memory_stream_pair
from wsproto import ConnectionType
from wsproto.connection import Connection as WebSocket
from wsproto.events import CloseConnection, Ping, Pong, TextMessage

from gateway.doctor.clients import NoFrame, StompClient


async def test_control_frames_are_seen() -> None:
    ours, theirs = memory_stream_pair()
    client = StompClient(ours, WebSocket(ConnectionType.CLIENT))
    server = WebSocket(ConnectionType.SERVER)
    answer = TextMessage("CONNECTED\nversion:1.2\n\n\0\n")
    end = CloseConnection(1009, "too big\x07")
    await theirs.send_all(b"".join(map(server.send, [Pong(), Ping(b"hi"), answer, end])))
    assert (await client.frame()).command == "CONNECTED"
    server.receive_data(await theirs.receive_some())
    assert [event.payload for event in server.events() if isinstance(event, Pong)] == [b"hi"]
    await theirs.aclose()
    with pytest.raises(NoFrame):
        await client.frame()
    assert client.close_reason == " (WebSocket close code 1009, 'too big')"
