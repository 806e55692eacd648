"""docs/durability.md on the disk, against a real gateway: little room, no writing, damage; and that it all ends."""

from __future__ import annotations

import http.client
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from .crash.disk import file_system
from .gateway_process import HOST, GatewayProcess
from .test_durability import DURABLE, ask, client, left, send, take

pytestmark = pytest.mark.slow

# Seconds until the gateway has noticed what happened to its disk.
SOON = 15.0

_STATVFS = """
import os
_ask = os.statvfs
def _told(path):
    found = list(_ask(path))
    with open({file!r}) as free:
        found[0:5] = 4096, 4096, 1 << 20, int(free.read()), 0
    found[4] = found[3]
    return os.statvfs_result(found)
os.statvfs = _told
"""


class Disk:
    """A disk whose room the gateway is told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "disk"
        self.folder.mkdir()
        self._free = folder / "free"
        self.free()
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(_STATVFS.format(file=str(self._free)))
        monkeypatch.setenv("PYTHONPATH", str(folder / "site"))

    def fill(self) -> None:
        self._tell(1000)

    def free(self) -> None:
        self._tell(1 << 19)

    def _tell(self, blocks: int) -> None:
        new = self._free.with_suffix(".new")
        new.write_text(str(blocks))
        new.replace(self._free)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


@pytest.fixture
def gateway(disk: Disk, tmp_path: Path) -> Iterator[GatewayProcess]:
    gateway = GatewayProcess(tmp_path, {"store": f"sqlite:{disk.folder}/store.db", "close_linger": 0.1})
    yield gateway
    gateway.kill()


def readiness(gateway: GatewayProcess) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(HOST, gateway.http_port, timeout=5)) as connection:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("error", "")


async def until_ready(gateway: GatewayProcess, status: int) -> str:
    """Wait until /readyz has that status; why."""
    with trio.fail_after(SOON):
        while True:
            found, why = await trio.to_thread.run_sync(readiness, gateway)
            if found == status:
                return why


async def refusal(gateway: GatewayProcess) -> tuple[str, str]:
    """The ERROR of somebody who sends a durable message."""
    async with client(gateway) as peer:
        await peer.publish("/queue/refused", b"x", **DURABLE)
        error = await peer.frame("ERROR")
    return error["message"], error.body.decode()


async def test_a_disk_that_is_nearly_full(disk: Disk, gateway: GatewayProcess) -> None:
    gateway.start()
    await until_ready(gateway, 200)
    async with client(gateway) as peer:
        for number in range(3):
            await send(peer, "/queue/a", str(number), **DURABLE)
        first, second, _ = await take(peer, "/queue/a", 3)
        await ask(peer, "ACK", id=first["ack"])

        disk.fill()
        why = await until_ready(gateway, 503)
        assert why.startswith("the store is short of room: ")
        assert str(disk.folder) in why
        assert await refusal(gateway) == (
            "the store cannot be written",
            "durable messages are refused for now: the disk is nearly full",
        )
        await ask(peer, "ACK", id=second["ack"])  # it is written
        await send(peer, "/queue/memory")
        await take(peer, "/queue/memory", 1)

        disk.free()
        await until_ready(gateway, 200)  # though nobody sends
        await send(peer, "/queue/a", "3", **DURABLE)
        gateway.kill()
    assert gateway.log.count("room for the store is short") == 1
    assert gateway.log.count("there is room for the store again") == 1
    gateway.start()
    assert [body for body, _ in await left(gateway, "/queue/a")] == ["2", "3"]


async def test_one_that_cannot_be_written_at_the_start(tmp_path: Path) -> None:
    """A file system that is read-only; where none can be mounted, a folder without rights."""
    with file_system() as mounted:
        folder = mounted.folder if mounted else tmp_path
        settings = {"store": f"sqlite:{folder}/store.db", "close_linger": 0.1}
        with GatewayProcess(tmp_path, settings).running() as gateway:
            async with client(gateway) as peer:
                await send(peer, "/queue/a", "kept", **DURABLE)
            gateway.stop()
            protect(folder, mounted=mounted is not None, protected=True)
            try:
                with pytest.raises(AssertionError, match="ended with status 1"):
                    gateway.start()
            finally:
                protect(folder, mounted=mounted is not None, protected=False)
            assert str(folder) in gateway.log
            gateway.start()
            assert await left(gateway, "/queue/a") == [("kept", None)]


def protect(folder: Path, *, mounted: bool, protected: bool) -> None:
    """Nothing can be written there, or it can again."""
    if mounted:
        command = ["mount", "-o", f"remount,{'ro' if protected else 'rw'}", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
    else:
        (folder / "store.db").chmod(0o444 if protected else 0o644)


async def test_damaged_messages_are_left_out_and_no_others(disk: Disk, gateway: GatewayProcess) -> None:
    gateway.start()
    async with client(gateway) as peer:
        for number in range(299):
            await peer.publish("/queue/a", b"%d" % number, **DURABLE)
        await send(peer, "/queue/a", "299", **DURABLE)
    gateway.stop()
    with closing(sqlite3.connect(disk.folder / "store.db")) as connection, connection:
        rows = [row for (row,) in connection.execute("SELECT row FROM rows ORDER BY row")]
        bad = [*range(40, 90), 200, 201, 299]
        for number in bad:
            connection.execute("UPDATE contents SET headers = x'ff' WHERE content = ?", (rows[number],))
    gateway.start()
    found = [int(body) for body, _ in await left(gateway, "/queue/a")]
    assert found == [number for number in range(300) if number not in bad]
    assert gateway.log.count("a message in the store is damaged") == 10
    (line, *_) = [json.loads(line) for line in gateway.log.splitlines() if "is damaged" in line]
    assert (line["row"], line["place"]) == (rows[40], "/queue/a")
    assert "messages cannot be read back" not in gateway.log
    await until_ready(gateway, 200)
    async with client(gateway) as peer:
        await send(peer, "/queue/a", "new", **DURABLE)
    gateway.stop()
    with closing(sqlite3.connect(disk.folder / "store.db")) as connection:
        (kept,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    assert kept == 300 + 1  # they are there for whoever can mend them
