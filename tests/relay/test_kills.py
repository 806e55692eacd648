"""A server is killed in the middle: nothing is lost, and nothing is doubled at a gateway that has a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client import StompServer

from .relaying import Reader, at, relaying, running, send, url, waiting

LOADS = [(3_000, 1), pytest.param(20_000, 3, marks=pytest.mark.long)]
"""Messages, and kills."""


def _some_have_come(where: StompServer, count: int, log: Path) -> None:
    """Wait until so many wait at the target; they are read by nobody."""
    reader = Reader(where, "/queue/work", browser="true", **{"browser-end": "false"})
    reader.until(count, log.read_text)
    reader.client.close()


@pytest.mark.parametrize(("count", "kills"), LOADS)
def test_the_target(tmp_path: Path, count: int, kills: int) -> None:
    """Each time with messages under way."""
    bodies = [str(number) for number in range(count)]
    store = f"sqlite:{tmp_path}/two.db"
    with running(tmp_path / "one") as one, running(tmp_path / "two", store=store) as two:
        send(at(one.tcp_port), "/queue/work", bodies, persistent="true")
        with relaying(tmp_path, "--from", url(one), "--to", url(two), "/queue/work") as relay:
            for kill in range(kills):
                _some_have_come(at(two.tcp_port), 1000 + 3000 * kill, relay.path)
                two.kill()
                relay.wait_for("the target is away", kill + 1)
                two.start()
                relay.wait_for("the target works again", kill + 1)
            reader = Reader(at(two.tcp_port), "/queue/work", ack="auto")
            assert reader.until(count, lambda: relay.log) == bodies
            reader.read(0.5)
            assert len(reader.bodies) == count
            reader.client.disconnect()
        assert waiting(at(one.tcp_port), "/queue/work") == []


@pytest.mark.parametrize(("count", "kills"), LOADS[1:])
def test_the_source(tmp_path: Path, count: int, kills: int) -> None:
    bodies = [str(number) for number in range(count)]
    store = f"sqlite:{tmp_path}/one.db"
    with running(tmp_path / "one", store=store) as one, running(tmp_path / "two") as two:
        send(at(one.tcp_port), "/queue/work", bodies, persistent="true")
        reader = Reader(at(two.tcp_port), "/queue/work", ack="auto")
        with relaying(tmp_path, "--from", url(one), "--to", url(two), "/queue/work") as relay:
            for kill in range(kills):
                reader.until(1000 + 4000 * kill, lambda: relay.log)
                one.kill()
                relay.wait_for("the source is away", kill + 1)
                one.start()
                relay.wait_for("the source works again", kill + 1)
            reader.until(count, lambda: relay.log)
            reader.read(0.5)
            assert sorted(map(int, reader.bodies)) == list(range(count))
            assert len(relay.events("the source works again")) == kills
        reader.client.disconnect()
        assert waiting(at(one.tcp_port), "/queue/work") == []
