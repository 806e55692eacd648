"""A server is killed in the middle: nothing is lost, and nothing is doubled at a gateway that has a store."""

from __future__ import annotations

from pathlib import Path

from gateway.client import StompServer

from .relaying import Reader, at, relaying, running, send, url, waiting

COUNT = 20_000
BODIES = [str(number) for number in range(COUNT)]


def _some_have_come(where: StompServer, count: int, log: Path) -> None:
    """Wait until so many wait at the target; they are read by nobody."""
    reader = Reader(where, "/queue/work", browser="true", **{"browser-end": "false"})
    reader.until(count, log.read_text)
    reader.client.close()


def test_the_target(tmp_path: Path) -> None:
    """Three times, each time with messages under way."""
    store = f"sqlite:{tmp_path}/two.db"
    with running(tmp_path / "one") as one, running(tmp_path / "two", store=store) as two:
        send(at(one.tcp_port), "/queue/work", BODIES, persistent="true")
        with relaying(tmp_path, "--from", url(one), "--to", url(two), "/queue/work") as relay:
            for kill in range(3):
                _some_have_come(at(two.tcp_port), 1000 + 3000 * kill, relay.path)
                two.kill()
                relay.wait_for("the target is away", kill + 1)
                two.start()
                relay.wait_for("the target works again", kill + 1)
            reader = Reader(at(two.tcp_port), "/queue/work", ack="auto")
            assert reader.until(COUNT, lambda: relay.log) == BODIES
            reader.read(0.5)
            assert len(reader.bodies) == COUNT
            reader.client.disconnect()
        assert waiting(at(one.tcp_port), "/queue/work") == []


def test_the_source(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/one.db"
    with running(tmp_path / "one", store=store) as one, running(tmp_path / "two") as two:
        send(at(one.tcp_port), "/queue/work", BODIES, persistent="true")
        reader = Reader(at(two.tcp_port), "/queue/work", ack="auto")
        with relaying(tmp_path, "--from", url(one), "--to", url(two), "/queue/work") as relay:
            for kill in range(2):
                reader.until(1000 + 5000 * kill, lambda: relay.log)
                one.kill()
                relay.wait_for("the source is away", kill + 1)
                one.start()
            reader.until(COUNT, lambda: relay.log)
            reader.read(0.5)
            assert sorted(map(int, reader.bodies)) == list(range(COUNT))
            assert len(relay.events("the source works again")) == 2
        reader.client.disconnect()
        assert waiting(at(one.tcp_port), "/queue/work") == []
