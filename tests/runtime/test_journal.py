"""A gateway with a journal: what is in it, when it cannot be opened, and what becomes of publishers it is slow for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import trio

from gateway.auth.authenticator import Anonymous
from gateway.broker.core.events import EventLog
from gateway.config.settings import load
from gateway.journal import found
from gateway.journal.schema import COLUMNS
from gateway.runtime.gateway import Gateway, StartError, open_gateway
from tests.journal.reading import Segment

from ..transports.peers import frame, until
from .gateways import FREE, connected, running, settings

Row = dict[str, Any]


@asynccontextmanager
async def recording(**values: object) -> AsyncIterator[Gateway]:
    async with running(journal="journal", **values) as gateway:
        yield gateway
        await until(lambda: not gateway.broker.sessions)  # or they would be sent away, which is another end


def rows(gateway: str = "gateway") -> list[Row]:
    """The journal, without the columns that a row does not have."""
    names = [column.name for column in COLUMNS]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for path in found(Path("journal") / gateway)
        for row in Segment(path)
    ]


def write(name: str, text: str) -> None:
    Path(name).write_text(text)


async def send(gateway: Gateway, *bodies: bytes, destination: str = "/queue/a") -> None:
    peer = await connected(gateway, "tcp")
    for body in bodies:
        await peer.publish(destination, body)
    await peer.settled()
    await peer.aclose()


async def refusal(**values: object) -> str:
    with pytest.raises(StartError) as caught:
        async with recording(**values):
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestRows:
    async def test_of_a_conversation(self) -> None:
        async with recording() as gateway:
            peer = await connected(gateway, "websocket")
            await peer.send_frame("SUBSCRIBE", destination="/queue/a", id=7, ack="client-individual")
            await peer.publish("/queue/a", b"hello")
            message = await peer.frame("MESSAGE")
            await peer.send_frame("ACK", id=message["ack"], receipt=1)
            await peer.frame("RECEIPT")
            await peer.aclose()
        told = rows()
        assert [row["event"] for row in told] == [
            *("connected", "subscribed", "accepted", "delivered", "acked", "unsubscribed", "disconnected")
        ]
        assert [row["seq"] for row in told] == list(range(1, 8))
        assert {(row["transport"], row["gateway"]) for row in told} == {("websocket", "gateway")}
        assert {row["message_id"] for row in told[2:5]} == {message["message-id"]}
        assert told[2]["body"] == b"hello"
        assert told[-1]["reason"] == "connection lost"

    async def test_of_whoever_is_not_let_in(self) -> None:
        async with recording() as gateway:
            peer = await connected(gateway, "tcp")
            await peer.aclose()
            stranger = await trio.open_tcp_stream("127.0.0.1", int(gateway.addresses["tcp"][0].rpartition(":")[2]))
            await stranger.send_all(frame("CONNECT", accept_version="9", login="bob", passcode="open-sesame"))
            await until(lambda: gateway.broker.counters.totals()["refused"] == 1)
            await stranger.aclose()
        error = next(row for row in rows() if row["event"] == "error")
        assert error["principal"] == "(hidden)", "nobody has said that it is a user's name, and no passcode"
        assert error["transport"] == "tcp"
        assert "session" not in error
        assert error["reason"]
        assert b"open-sesame" not in b"".join([path.read_bytes() for path in found(Path("journal/gateway"))])

    async def test_bodies(self) -> None:
        write(
            "gateway.toml",
            'journal = "journal"\njournal_bodies = 2\n[[policy]]\nmatch = "/queue/none"\njournal_bodies = "none"\n'
            '[[policy]]\nmatch = "/queue/all"\njournal_bodies = "all"\n',
        )
        chosen = load(tcp=[FREE], websocket=[FREE])
        async with open_gateway(chosen, authenticator=Anonymous()) as gateway:
            for name in ("none", "all", "other"):
                await send(gateway, b"hello", destination=f"/queue/{name}")
        accepted = [row for row in rows() if row["event"] == "accepted" and row["destination"].startswith("/queue/")]
        kept = {row["destination"]: row.get("body") for row in accepted}
        assert kept == {"/queue/none": None, "/queue/all": b"hello", "/queue/other": b"he"}
        assert {row["size"] for row in accepted} == {5}


async def test_what_cannot_be_opened() -> None:
    """The listeners are opened behind it: nothing that happens is missing, and what cannot start sets it free."""
    async with recording():
        assert "journal_id" in await refusal()
        async with recording(journal_id="other"):
            pass
    with pytest.raises(StartError):
        async with recording(tcp="192.0.2.1:1"):
            pass
    async with recording():
        pass


async def test_a_failure_and_what_is_missing_are_said() -> None:
    with structlog.testing.capture_logs() as logs:
        async with recording() as gateway:
            assert gateway.journal is not None
            journal = gateway.journal
            journal.worker._say("the disk is full")
            await until(lambda: any(line["event"] == "nothing is recorded for now" for line in logs))
            assert gateway.not_ready() is None
            journal.worker._say("")
            await until(lambda: any(line["event"] == "what happens is recorded again" for line in logs))
            journal.rows_dropped = 3
    assert [line["rows"] for line in logs if line["event"] == "rows are missing in the journal"] == [3]


class TestLeft:
    async def test_what_a_crash_left_is_told(self) -> None:
        """The last process left a segment open; its first record rots, and the power went in the middle of the last."""
        async with recording() as gateway:
            await send(gateway, b"first")
            await until(lambda: gateway.journal is not None and gateway.journal.worker.rows > 0)
            await send(gateway, b"second")
        (path,) = found(Path("journal/gateway"))
        lost, *kept = Segment(path).records()
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.with_suffix(".open").write_bytes(bytes(data) + b"torn")
        path.unlink()
        with structlog.testing.capture_logs() as logs:
            async with recording():
                pass
        assert list(Segment(path).records()) == kept
        assert kept[0][0][2] == len(lost) + 1
        told = {line["event"]: (line["segment"], line["octets"]) for line in logs if "octets" in line}
        assert told.keys() == {
            *("the torn end of a segment was cut off", "a segment is damaged, all other rows of it are kept")
        }
        assert told["the torn end of a segment was cut off"] == (str(path), 4)
        assert {segment for segment, _ in told.values()} == {str(path)}


class TestSlowDisk:
    async def test_publishers_are_held_and_consumers_are_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        behind = True
        monkeypatch.setattr(EventLog, "is_behind", property(lambda _: behind))
        async with recording(journal_when_full="block") as gateway:
            consumer = await connected(gateway, "tcp")
            await consumer.subscribe("/topic/a")
            publisher = await connected(gateway, "tcp")
            await publisher.publish("/topic/a", b"1")
            await until(lambda: len(gateway.blocked_publishers) == 1)
            (hold,) = gateway.blocked_publishers.by_session().values()
            assert hold.reason == "journal slow"
            assert (await consumer.frame("MESSAGE")).body == b"1"
            await publisher.publish("/topic/a", b"2")
            await consumer.settled()  # it is read, and answered
            behind = False
            gateway._server.relieve()
            assert (await consumer.frame("MESSAGE")).body == b"2"
            assert len(gateway.blocked_publishers) == 0
            await publisher.aclose()
            await consumer.aclose()


def test_settings() -> None:
    assert settings(journal="").journal is None
    assert settings(journal_bodies=7).journal_bodies == "7"
    for wrong in ({"journal": 5}, {"journal_bodies": "some"}, {"journal_bodies": -1}):
        with pytest.raises(ValueError, match="journal"):
            settings(**wrong)
