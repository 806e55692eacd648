"""What an operator moves or redrives while the gateway is killed with `kill -9`: with the real store."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio

from gateway.broker.admin.messages import Outcome, Page
from gateway.runtime.gateway import Gateway

from ..operator_process import SOURCE, TARGET
from .gateways import STORE, connected, running

ROOT = Path(__file__).parents[2]
COUNT = 700  # two slices, and so two commits


@pytest.fixture(scope="module")
def graves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with durable dead letters of /queue/a."""
    path = tmp_path_factory.mktemp("graves") / "store.db"
    trio.run(bury, f"sqlite:{path}")
    return path


async def bury(store: str) -> None:
    async with running(store=store) as gateway:
        peer = await connected(gateway, "tcp")
        for number in range(COUNT):
            await peer.send_frame("SEND", b"%d" % number, destination="/queue/a", persistent="true")
        await peer.send_frame("SUBSCRIBE", destination="/queue/a", id=1, ack="client", prefetch_count=0)
        for _ in range(COUNT):
            message = await peer.frame("MESSAGE")
        await peer.send_frame("NACK", id=message["ack"], requeue="false", receipt="last")
        await peer.frame("RECEIPT")
        await peer.aclose()


async def waiting(gateway: Gateway, name: str) -> list[int]:
    """What waits there, in order; it stays."""
    if name not in gateway.broker.destinations:
        return []
    pages: list[Page] = []
    over = trio.Event()

    def take(page: Page) -> None:
        pages.append(page)
        over.set()

    gateway.message_admin.browse(name, 0, COUNT, "", take)
    await over.wait()
    return [int(str(row["body"])) for row in pages[0].messages]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("commit", "moment"),
    [(1, "after"), *[pytest.param(*each, marks=pytest.mark.long) for each in ((1, "before"), (2, "before"))]],
)
@pytest.mark.parametrize(("work", "target"), [("move", TARGET), ("redrive", "/queue/a")])
async def test_each_message_is_in_one_place(
    graves: Path, tmp_path: Path, work: str, target: str, commit: int, moment: str
) -> None:
    store = shutil.copy(graves, tmp_path / "store.db")
    command = [sys.executable, "-m", "tests.operator_process", f"sqlite:{store}", work, str(commit), moment]
    done = await trio.run_process(command, cwd=ROOT, check=False, capture_stderr=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    async with running(store=STORE) as gateway:
        left, came = await waiting(gateway, SOURCE), await waiting(gateway, target)
        assert came + left == list(range(COUNT))
        assert bool(came) == (commit > 1 or moment == "after")
        if left:
            outcomes: list[Outcome] = []
            over = trio.Event()

            def tell(outcome: Outcome) -> None:
                outcomes.append(outcome)
                over.set()

            gateway.message_admin.move(SOURCE, target, None, "", None, tell)
            await over.wait()
            assert outcomes[0].done == len(left)
        assert await waiting(gateway, target) == list(range(COUNT))
