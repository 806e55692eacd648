"""What sessions may do, and how much of everything they and the broker may hold.

The settings of the same names explain each.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Quotas:
    """In numbers, bytes and seconds; an ERROR that follows from one names it as the setting is called."""

    max_subscriptions: int = 20_000
    max_transactions: int = 64
    max_transaction_octets: int = 16 * MIB
    max_unacknowledged: int = 1_000
    max_outbound: int = 32 * MIB
    memory_limit: int = 1024 * MIB
    max_destinations: int = 1_000_000
    max_unacknowledged_octets: int = 64 * MIB
    max_delayed: int = 1_000_000
    max_retained: int = 100_000
    max_durable_subscriptions: int = 100_000
    dedup_window: float = 600.0
    max_dedup_ids: int = 100_000
    client_queue_arguments: bool = True
    lenient: bool = False

    @property
    def memory_high(self) -> int:
        """From so many bytes on publishers are held back."""
        return self.memory_limit * 3 // 4
