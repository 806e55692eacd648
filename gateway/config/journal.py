"""The settings of what is recorded, and of the folders that the pipeline makes of it.

They are a part of `gateway.config.settings.Settings`, which reads and checks them together with the rest.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

from gateway.config.kinds import Bodies, Octets, Place
from gateway.config.security import KIB, MIB
from gateway.journal import Sync


class Journalling(BaseSettings):
    """The journal, the archive, and the tables."""

    journal: Place = Field(
        None,
        description="Folder of the journal: what happened to which message and session, a folder in it for each "
        "gateway. None: nothing is recorded. A relative path counts as that of users_file does. See "
        "[journal](journal.md).",
    )
    journal_id: str = Field(
        "gateway",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$",
        description="Name of this gateway in the journal; each gateway that writes into the same folder needs its own.",
    )
    journal_sync: Sync = Field(
        Sync.NONE,
        description="When what is written is on the disk, too: `none` (the operating system decides), `interval` (once "
        "a second), `flush` (at once; 20 times a second). Written it is 50 ms after it happened, and survives the end "
        "of the process; this is for power cuts.",
    )
    journal_queue: Octets = Field(
        64 * MIB,
        ge=64 * KIB,
        le=1024 * MIB,
        description="Octets that may wait for the disk.",
    )
    journal_when_full: str = Field(
        "drop",
        pattern="^(drop|block)$",
        description="What happens when more waits: `drop` leaves rows out, and a row tells how many; `block` holds "
        "publishers back from 3/4 of it on.",
    )
    journal_bodies: Bodies = Field(
        "all",
        description="How much of each message's body the journal keeps: `all`, `none`, or octets from its start; the "
        "key of the same name in a policy says it for single destinations.",
    )
    journal_gauges: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="Seconds between two looks at who has unacknowledged messages, and where messages wait (0: never).",
    )
    archive: Place = Field(
        None,
        description="Folder of the archive, for `gateway archive` and `gateway pipeline`; the gateway itself does not "
        "touch it. See [archive](archive.md).",
    )
    tables: Place = Field(
        None,
        description="Folder of what the jobs of `gateway pipeline` find. See [pipeline](pipeline.md).",
    )
