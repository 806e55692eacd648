"""A lease holds for two seconds after its last renewal was sent, and is lost when another node has it."""

from __future__ import annotations

import time

import pytest
from structlog.testing import capture_logs

from gateway.cluster.directory import Primary
from gateway.cluster.lease import PATIENCE, RECOVERY, RENEW_EVERY, STUCK, Lease, clock
from gateway.cluster.log import ELECTION, LogUnavailable
from tests.cluster.directories import MemoryDirectory

US = Primary("a", "host-a:61613", 3)
OTHER = Primary("b", "host-b:61613", 4)


class Clock:
    """Monotonic seconds, as a test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Held:
    """A lease that was just won, its directory and its clock; nothing runs by itself."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.directory = MemoryDirectory()
        revision = self.directory.win(US, 0)
        self.lost: list[float] = []
        self.lease = Lease(self.directory, US, revision, self.clock(), lambda: self.lost.append(0), self.clock)

    def clock_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    def turns(self, count: int, seconds: float = RENEW_EVERY) -> None:
        """So many turns of its thread."""
        for _ in range(count):
            self.clock.now += seconds
            self.lease.turn()


@pytest.fixture
def held() -> Held:
    return Held()


def test_holds_while_it_is_renewed(held: Held) -> None:
    for _ in range(100):
        held.turns(1)
        assert held.lease.holds
        held.lease.beat()


def test_ends_two_seconds_after_the_last_renewal_was_sent(held: Held) -> None:
    held.turns(1)
    held.directory.failure = "no answer"
    held.turns(1)
    assert held.lease.holds
    held.clock.now += PATIENCE - RENEW_EVERY - 0.01
    assert held.lease.holds
    held.clock.now += 0.02
    assert not held.lease.holds
    assert not held.lease.is_lost
    held.directory.failure = ""
    held.turns(1)
    assert held.lease.holds


def test_is_overdue_when_an_election_would_be_over(held: Held) -> None:
    held.turns(1)
    held.clock_passes(ELECTION - 0.1)
    assert not held.lease.is_overdue
    held.clock_passes(0.1)
    assert held.lease.is_overdue
    held.turns(1)
    assert not held.lease.is_overdue


def test_an_outage_is_two_lines_of_the_log(held: Held) -> None:
    with capture_logs() as logs:
        held.turns(1)
        held.directory.failure = "no answer"
        held.turns(10)
        held.directory.failure = ""
        held.turns(2)
    assert [(line["event"], line.get("reason"), line.get("seconds")) for line in logs] == [
        ("the lease cannot be renewed for now", "no answer", None),
        ("the lease is renewed again", None, 11.0),
    ]


def test_a_renewal_that_is_late_counts_from_when_it_was_sent(held: Held) -> None:
    held.turns(1)
    held.directory.takes = lambda: held.clock_passes(1.5)
    held.turns(1)
    assert held.lease.holds
    held.clock.now += 0.6
    assert not held.lease.holds


def test_the_next_server_is_asked_at_once_where_one_is_lost(held: Held) -> None:
    held.turns(1)

    def first_one_is_lost() -> None:
        held.directory.takes = dict
        held.clock_passes(held.directory.timeout)
        assert held.lease.holds
        raise LogUnavailable("no answer")

    held.directory.takes = first_one_is_lost
    held.turns(1)
    held.clock_passes(0.5)
    assert held.lease.holds


def test_a_renewal_whose_answer_was_lost_is_no_loss(held: Held) -> None:
    held.directory.lost_answers = 1
    held.turns(1)
    assert held.directory.value == US
    held.turns(2)  # the first one finds out
    assert held.lease.holds
    assert not held.lease.is_lost


def test_finds_out_later_where_the_directory_is_silent(held: Held) -> None:
    held.directory.lost_answers = 1
    held.turns(1)
    held.directory.is_mute = True
    held.turns(1)
    assert not held.lease.is_lost
    held.directory.is_mute = False
    held.turns(2)
    assert held.lease.holds


def test_is_lost_when_another_node_has_it(held: Held) -> None:
    held.directory.end()
    held.directory.take(OTHER, 0)
    held.turns(1)
    assert held.lease.is_lost
    assert not held.lease.holds
    held.lease.hand_over()
    assert held.directory.value == OTHER


def test_is_taken_again_when_it_has_ended_and_nothing_has_it(held: Held) -> None:
    held.directory.end()
    held.turns(2)
    assert held.lease.holds
    assert held.directory.value == US


def test_is_lost_when_another_node_had_it_and_has_given_it_up(held: Held) -> None:
    held.directory.end()
    revision = held.directory.take(OTHER, 0)
    held.directory.take(Primary("", "", 4), revision)
    held.turns(1)
    assert held.lease.is_lost


def test_a_server_that_shows_what_was_before_is_left(held: Held) -> None:
    held.directory.passed = Primary("c", "host-c:61613", US.epoch - 1)
    held.turns(1)
    assert held.lease.holds
    assert held.lease.age == 0
    assert held.directory.value == US


def test_is_lost_when_another_node_had_it_until_it_ended(held: Held) -> None:
    """The primary was cut off, and then the next one: what the first has in memory counts no more."""
    held.turns(3)
    held.directory.end()
    held.directory.win(OTHER, 0)
    held.clock_passes(12)
    held.directory.end()
    held.turns(2)
    assert held.lease.is_lost
    assert not held.lease.holds
    assert held.directory.value is None  # that one may take it again


def test_holds_nothing_until_it_knows_that_no_other_node_had_it(held: Held) -> None:
    held.directory.end()
    held.turns(1)
    held.directory.is_mute = True
    held.turns(2)
    assert held.directory.value == US
    assert not held.lease.holds
    held.directory.is_mute = False
    held.turns(1)
    assert held.lease.holds


@pytest.mark.parametrize("takes_it", [True, False])
def test_a_stopped_process_holds_nothing_when_it_goes_on(held: Held, takes_it: bool) -> None:
    held.turns(3)
    held.clock.now += 12  # SIGSTOP
    assert not held.lease.holds
    held.directory.end()
    if takes_it:
        held.directory.take(OTHER, 0)
    held.lease.turn()
    assert not held.lease.holds
    held.turns(1)
    assert held.lease.holds is not takes_it
    assert held.lease.is_lost is takes_it


def test_a_suspended_machine_holds_nothing_when_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    directory, suspended = MemoryDirectory(), Clock()
    clocks = {time.CLOCK_MONOTONIC: lambda: 100.0, time.CLOCK_BOOTTIME: suspended}
    monkeypatch.setattr(time, "clock_gettime", lambda which: clocks[which]())
    lease = Lease(directory, US, directory.take(US, 0), clock(), lambda: None)
    assert lease.holds
    suspended.now += 12
    assert not lease.holds


def test_a_process_that_stops_within_a_renewal_holds_nothing(held: Held) -> None:
    held.directory.takes = lambda: held.clock_passes(12)
    held.turns(1)
    assert not held.lease.holds


def test_a_loop_that_is_stuck_lets_it_go(held: Held) -> None:
    held.lease.beat()
    held.turns(int(STUCK) - 1)
    assert held.lease.holds
    held.turns(3)
    assert not held.lease.holds
    held.lease.beat()
    held.turns(1)
    assert held.lease.holds


def test_a_recovery_may_be_long(held: Held) -> None:
    held.turns(10 * int(STUCK))
    assert held.lease.holds


def test_a_recovery_that_hangs_lets_it_go(held: Held) -> None:
    held.turns(int(RECOVERY) - 1)
    assert held.lease.holds
    held.turns(3)
    assert not held.lease.holds


def test_a_handover_names_the_next(held: Held) -> None:
    held.turns(1)
    held.lease.hand_over("b")
    assert held.directory.value == Primary("", US.address, US.epoch, "b")


def test_a_handover_without_answer_ends_by_itself(held: Held) -> None:
    held.directory.failure = "no answer"
    held.lease.hand_over()
    assert held.directory.value == US


def test_its_thread_tells_once_that_it_is_lost(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.cluster import lease

    monkeypatch.setattr(lease, "RENEW_EVERY", 0.001)
    held.directory.end()
    held.directory.take(OTHER, 0)
    held.lease.start()
    held.lease._thread.join(10)
    assert held.lost == [0]
