"""Figures of many rounds, as a line shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .books import KINDS, Complaint


def listed(counts: Iterable[Counter[str]]) -> str:
    """The sums, the largest first."""
    total: Counter[str] = sum(counts, Counter())
    return ", ".join(f"{name} {count}" for name, count in total.most_common()) or "none"


def violations(complaints: Iterable[Iterable[Complaint]]) -> str:
    """How many there are of each kind."""
    kinds = Counter(complaint.kind for each in complaints for complaint in each)
    return ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS)
