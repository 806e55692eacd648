"""Files of the release before: today's code finds every message, every row and every setting of them.

`files.tar.gz` is made by `make.py`, and `settings.json` is what `settings.toml` says, both with the code of 642e5f9.
The archive has a store and a journal twice: as `kill -9` leaves them, and as a stop in order does.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from gateway.config.settings import load
from gateway.journal import Journal, found
from gateway.runtime.gateway import Gateway
from gateway.stores import SQLiteStore
from tests.journal.reading import Segment

from ..runtime.test_gateway import running
from ..transports.peers import Peer, Received, dial

HERE = Path(__file__).parent
MADE = 1_795_392_450.0  # seconds since 1970
POLICY = [
    {"match": "/topic/log", "log_messages": 10, "idle_timeout": 315_360_000},
    {"match": "/topic/news", "idle_timeout": 315_360_000},
]


@pytest.fixture(params=["killed", "stopped"])
def how(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the gateway ended; its files are in the working directory."""
    with tarfile.open(HERE / "files.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / request.param)
    return str(request.param)


async def client(gateway: Gateway, name: str) -> Peer:
    peer = await dial("tcp", gateway.addresses["tcp"][0])
    await peer.connect(client_id=name)
    return peer


async def read(peer: Peer, destination: str, count: int = 1, **headers: str | int) -> list[Received]:
    """The first messages of a subscription."""
    await peer.send_frame("SUBSCRIBE", **{"destination": destination, "id": destination, **headers})
    return [await peer.frame("MESSAGE") for _ in range(count)]


async def test_every_message_of_a_store(how: str) -> None:
    async with running(store="sqlite:store.db", policy=POLICY) as gateway:
        peer = await client(gateway, "one")
        assert len(gateway.broker.router.delayed) == 1
        first, second, third = orders = await read(peer, "/queue/orders", 3)
        assert [each.body for each in (first, second, third)] == [b"first", b"\0\xff", b"third"]
        assert (first["priority"], first["kind"]) == ("7", "ü")
        assert (third["JMSXGroupID"], third["expires"]) == ("g", "253402300799999")
        assert ["redelivered" in each.headers for each in orders] == [how == "killed"] * 3
        (tried,), (dead,), (once,) = [await read(peer, f"/queue/{name}") for name in ("tried", "dlq.bad", "once")]
        assert (tried.body, tried["delivery-count"], once.body) == (b"tried", "2", b"once")
        assert (dead.body, dead["dlq-source"], dead["dlq-reason"]) == (b"bad", "/queue/bad", "rejected")
        (weather,) = await read(peer, "/topic/weather")
        assert (weather.body, weather["retained"]) == (b"sun", "true")

        resumed = await read(peer, "/topic/log", 2, id="resumed", ack="client", resume="reader")
        assert [each.body for each in resumed] == [b"2", b"3"]
        assert [each.body for each in await read(peer, "/topic/log", 4, from_seq=0)] == [b"0", b"1", b"2", b"3"]
        await peer.aclose()

        other = await client(gateway, "two")
        news = await read(other, "/topic/news", 2, id="news", durable="true", selector="kind = 'x'")
        assert [each.body for each in news] == [b"0", b"2"]
        await other.settled()
        await other.aclose()


def test_what_the_store_says_of_itself(how: str) -> None:
    store = SQLiteStore.open(Path("store.db"), clock=lambda: MADE, reserve=0)
    loaded = store.load()
    assert loaded.clean == (how == "stopped")
    assert len(loaded.seen) == 1
    rows = list(loaded.rows)
    assert {row.row for row in rows} == {each.row.row for each in store.read([row.row for row in rows])}
    assert loaded.highest > max(row.row for row in rows)
    store.close(clean=True)


def test_every_row_of_a_journal(how: str) -> None:
    if how == "killed":
        assert not found(Path("journal/gateway"))
    Journal(Path("journal"), "gateway", run="r").close()  # completes what the last process left
    (path,) = found(Path("journal/gateway"))
    segment = Segment(path)
    rows = list(segment)
    assert (segment.torn, segment.damaged, segment.unknown) == (0, 0, 0)
    assert [row[2] for row in rows] == list(range(1, len(rows) + 1))
    events = [row[4] for row in rows]
    assert {name: events.count(name) for name in EVENTS} == EVENTS


EVENTS = {"connected": 3, "accepted": 15, "delivered": 6, "nacked": 2, "acked": 2, "dead_lettered": 1, "subscribed": 4}


def test_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(HERE / "settings.toml", "gateway.toml")
    # Settings that count bytes have other names since.
    wanted = json.loads((HERE / "settings.json").read_text().replace("_octets", "_bytes"))
    dumped = load().model_dump(mode="json")
    for rule in (*dumped["rule"], *wanted["rule"]):  # sets have no order
        rule |= {name: sorted(value) for name, value in rule.items() if isinstance(value, list)}
    assert {name: dumped[name] for name in wanted} == wanted
