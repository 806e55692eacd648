"""The model of the broker (`tests/broker/models`) on the log of a cluster: after each step a standby could take over.

In one half of the programs one does, after every step, and clients come back and subscribe again.  In the other half
the standby only has to have by then what the primary has written, and takes over where the model restarts or kills the
process.  A primary may be lost within a commit: before, between and after its parts, told of it or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Batch
from gateway.cluster import records, replica, store
from gateway.cluster.follower import Follower
from gateway.cluster.log import LogWriter
from tests.broker.models.program import Clients, Setup, pick
from tests.broker.models.test_model import PROFILES, examples

from .nodes import NO_ANSWER, NO_FILE, NO_LOG, LogStore

NAMES = ["kills", "rows", "replay"]


class Cluster(Clients):
    """Clients of one primary after the other."""

    def __init__(self, profile: Callable[[st.DataObject], Setup]) -> None:
        super().__init__(partial(_over_log, profile))
        self.always = False

    @property
    def store(self) -> LogStore:
        store = self.scene.store
        assert isinstance(store, LogStore)
        return store

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        super().start(data)
        self.always = data.draw(st.booleans())

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        super().step(data)
        self.failed = True
        self.store.compare()
        if self.always:
            self.crash(data)
            for _ in range(data.draw(st.integers(1, 3))):
                self.subscribe(data)
            self.look()
        self.failed = False

    def fail_store(self, data: st.DataObject) -> None:
        self.store.failure = pick(data, [NO_LOG, NO_ANSWER, NO_FILE])

    def reach_disk(self, data: st.DataObject, batch: Batch) -> bool:
        appends = data.draw(st.integers(0, 3))
        return self.store.die_in(batch, appends, answers=data.draw(st.booleans()))


def _over_log(profile: Callable[[st.DataObject], Setup], data: st.DataObject) -> Setup:
    setup = profile(data)
    stored = LogStore()

    def close() -> None:
        stored.nodes.close()
        setup.close()

    return replace(setup, stored=stored, close=close)


@pytest.mark.timeout(400)  # when it fails, the search for a short example may take 300 s
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])])
@pytest.mark.parametrize("name", NAMES)
def test_the_broker_does_what_the_model_says_over_a_log(name: str, times: int) -> None:
    profile, count = PROFILES[name]
    run_state_machine_as_test(partial(Cluster, profile), settings=examples(count * times // 4))


def _gone_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    unpack = records.unpack_batch

    def unpack_batch(number: int, payload: bytes) -> Batch:
        batch = unpack(number, payload)
        batch.gone.clear()
        return batch

    patch.setattr(replica, "unpack_batch", unpack_batch)


def _the_end_is_not_read(patch: pytest.MonkeyPatch) -> None:
    step = Follower.step

    def all_but_the_last(follower: Follower) -> int:
        count = step(follower) if follower.lag > 1 else 0
        follower.read = follower.end
        return count

    patch.setattr(Follower, "step", all_but_the_last)


def _a_lost_answer_is_appended_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogWriter, "_append", lambda writer, part: _append_anywhere(writer, part))


def _append_anywhere(writer: LogWriter, part: bytes) -> None:
    log = writer._log
    writer.last = log.append(part, log.bounds().last)


def _shared_contents_are_left_out(patch: pytest.MonkeyPatch) -> None:
    pack = records.pack_batch

    def pack_batch(batch: Batch) -> bytes:
        own = {number: content for number, content in batch.contents.items() if number in batch.rows}
        return pack(replace(batch, contents=own))

    patch.setattr(store, "pack_batch", pack_batch)


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("kills", _gone_is_forgotten),
        ("kills", _the_end_is_not_read),
        ("kills", _a_lost_answer_is_appended_again),
        ("rows", _shared_contents_are_left_out),
    ],
)
def test_a_planted_fault_is_found(
    name: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    profile, count = PROFILES[name]
    found = settings(examples(count), phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)
    with pytest.raises((AssertionError, KeyError, StoreError, pytest.fail.Exception)):
        run_state_machine_as_test(partial(Cluster, profile), settings=found)
