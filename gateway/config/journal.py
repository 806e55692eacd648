"""Settings of the journal, the archive and the tables, and of metrics and traces.

Part of `gateway.config.settings.Settings`, which reads and checks all settings together.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings

from gateway.config.kinds import KIB, MIB, Bodies, Endpoint, MetricsPatterns, Place, Size
from gateway.journal import Sync


class JournalSettings(BaseSettings):
    """The journal, the archive, and the tables."""

    journal: Place = None
    """Folder of the journal, which records events of messages and sessions; each gateway has its own in it. None:
    nothing is recorded. A relative path is read as that of users_file. See [journal](journal.md)."""

    journal_id: str = Field("gateway", pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")
    """Name of this gateway in the journal. Gateways that share the folder need different names."""

    journal_sync: Sync = Sync.NONE
    """When written records are forced to the disk: `none` (the operating system decides), `interval` (once a second),
    `flush` (at once; 20 times a second). A record is written 50 ms after its event, and then survives the end of the
    process; only `interval` and `flush` make it survive a power cut."""

    journal_queue: Annotated[Size, Field(ge=64 * KIB, le=1024 * MIB)] = 64 * MIB
    """Bytes of records that may wait for the disk."""

    journal_when_full: str = Field("drop", pattern="^(drop|block)$")
    """Behaviour when journal_queue is full: `drop` leaves records out, and one record tells how many; `block` blocks
    publishers from 3/4 of it on."""

    journal_bodies: Bodies = "all"
    """How much of each message body the journal keeps: `all`, `none`, or bytes from its start. The  policy key of the
    same name sets it for single destinations."""

    journal_gauges: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """Seconds between two records of each consumer's unacknowledged messages and each queue's waiting messages (0:
    never)."""

    archive: Place = None
    """Folder of the archive, for `gateway archive` and `gateway pipeline`; the gateway itself does not use it. See
    [archive](archive.md)."""

    tables: Place = None
    """Folder of the tables that the jobs of `gateway pipeline` write. See [pipeline](pipeline.md)."""


class ObserveSettings(BaseSettings):
    """Metrics of single destinations, and traces."""

    metrics_destinations: MetricsPatterns = Field([])
    """Queues and topics with metrics of their own, by name or pattern (like `/queue/orders.#`), comma-separated: at
    most the first 100 that match, with four time series each. See [metrics](metrics.md)."""

    trace_endpoint: Endpoint = ""
    """Full address to which spans are sent, as OTLP over HTTP, like `http://127.0.0.1:4318/v1/traces`. Needs the extra
    `otel` of the wheel. Empty: no tracing. See [tracing](tracing.md)."""

    trace_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Fraction of messages that are traced, of those without a `traceparent`; else its flag decides."""
