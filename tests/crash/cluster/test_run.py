"""What many rounds have shown, in a few lines."""

from __future__ import annotations

from collections import Counter

from tests.crash.books import KINDS, Complaint

from .round import ClusterOutcome
from .run import cluster_summary


def test_the_summary_has_a_line_for_each_act() -> None:
    found = [
        ClusterOutcome(7, Counter({"primary kill": 2}), Counter(receipts=5), [], [("primary kill", 3.0)]),
        ClusterOutcome(8, Counter({"primary kill": 1, "standby end": 1}), Counter(receipts=4, deliveries=2)),
        ClusterOutcome(9, complaints=[Complaint("lost", "a"), Complaint("lost", "b"), Complaint("two", "c")]),
    ]
    found[1].pauses += [("primary kill", 4.0), ("primary kill", 9.0)]
    assert cluster_summary(found, 61.6).splitlines() == [
        "3 rounds of a cluster in 62 s, 4 acts",
        "      3 primary kill: first delivery by the next primary after 4.0 s (median of 3), 9.0 s at most",
        "      1 standby end",
        "receipts 9, deliveries 2",
        "violations: " + ", ".join(f"{kind} { {'lost': 2, 'two': 1}.get(kind, 0) }" for kind in KINDS),
        "in 1 rounds: seeds 9",
    ]
