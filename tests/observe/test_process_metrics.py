"""The gateway's own condition: what is shown of it, and that a disk that hangs holds nobody up."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import trio
from prometheus_client.metrics_core import Metric

from gateway.observe import metrics as module
from gateway.observe.metrics import Disks, of_health
from gateway.transports.wire.certificates import CertificateFiles, TlsCertificates
from tests.transports.peers import dial, until

from .everything import everything, scraped


def found(metrics: Iterable[Metric]) -> dict[str, float]:
    return {
        sample.name + "".join(sample.labels.values()): sample.value for family in metrics for sample in family.samples
    }


async def test_the_condition_of_a_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(of_health("memory is full", {"journal": "x", "tracing": "y"}, 7.5, 3)) == {
        "gateway_ready": 0,
        "gateway_complaints": 2,
        "gateway_certificate_expiry_timestamp_seconds": 7.5,
        "gateway_handler_failures_total": 3,
    }
    async with everything(tmp_path, monkeypatch) as (gateway, metrics):
        peer = await dial("tcp", gateway.addresses["tcp"][0])
        await peer.connect()
        await peer.publish("/app/work")
        await peer.publish("/app/fail")
        functions = gateway.functions
        assert functions is not None
        await until(lambda: functions.failures)
        families = await scraped(metrics)
        assert families["gateway_handler_failures"].samples[0].value == 1
        ends = TlsCertificates(CertificateFiles(tmp_path / "server.pem", tmp_path / "server.key")).ends
        assert families["gateway_certificate_expiry_timestamp_seconds"].samples[0].value == ends
        assert families["gateway_ready"].samples[0].value == 1
        places = [sample.labels["place"] for sample in families["gateway_disk_free_bytes"].samples]
        assert sorted(places) == ["journal", "store"]
        await gateway.drain()
        assert (await scraped(metrics))["gateway_ready"].samples[0].value == 0
        await peer.aclose()


class TestDisks:
    async def test_what_is_free(self, tmp_path: Path) -> None:
        disks = Disks({"store": tmp_path, "journal": tmp_path / "not-there"})
        assert found(disks.metrics()) == {}
        await disks.look()
        shown = found(disks.metrics())
        assert shown.keys() == {"gateway_disk_free_bytesstore", "gateway_disk_size_bytesstore"}
        assert 0 < shown["gateway_disk_free_bytesstore"] <= shown["gateway_disk_size_bytesstore"]

    async def test_one_that_hangs_holds_nobody_up_and_has_one_thread(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hung: threading.Event
    ) -> None:
        asked: list[object] = []

        def hang(folder: object) -> None:
            asked.append(folder)
            hung.wait(20)
            raise OSError("it has gone")

        monkeypatch.setattr(module, "LONGEST_LOOK", 0.01)
        monkeypatch.setattr(os, "statvfs", hang)
        disks = Disks({"store": tmp_path})
        with trio.fail_after(10):
            for _ in range(3):
                await disks.look()
        assert len(asked) == 1
        assert found(disks.metrics()) == {}


@pytest.fixture
def hung() -> Iterator[threading.Event]:
    """Set at the end, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()
