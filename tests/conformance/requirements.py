"""The table of REQUIREMENTS.md as data: the versions and transports that each statement binds.

A row binds the core, a broker without sockets, unless its section is about connections; such a row binds TCP, and in
its newest version WebSocket.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("1.0", "1.1", "1.2")
TRANSPORTS = ("core", "tcp", "ws")
SOCKETS = TRANSPORTS[1:]
# Sections of rows that bind the transport.
CONNECTIONS = ("CON", "NEG", "HBT", "LIM", "LNG", "DSC", "ERR")
COLUMNS = tuple((version, transport) for version in VERSIONS for transport in TRANSPORTS)
TABLE = Path(__file__).with_name("REQUIREMENTS.md")


@dataclass(frozen=True)
class Requirement:
    """A row: its level in each version that it binds, and the transports that it binds."""

    id: str
    levels: dict[str, str]
    transports: tuple[str, ...]
    statement: str

    def binds(self, version: str, transport: str) -> bool:
        is_old = self.id[:3] in CONNECTIONS and transport == "ws" and version != max(self.levels)
        return version in self.levels and transport in self.transports and not is_old


def read(text: str) -> dict[str, Requirement]:
    """All rows by ID, in the order of the document."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells or not re.fullmatch(r"[A-Z]{3}-\d\d", cells[0]):
            continue
        id, section = cells[0], cells[0][:3]
        if section in ("LEN", "WST", "XTR"):
            versions = VERSIONS[:1] if section == "LEN" else VERSIONS
            levels, statement = dict.fromkeys(versions, cells[1]), cells[2]
        else:
            levels = {version: level for version, level in zip(VERSIONS, cells[1:4], strict=True) if level != "—"}
            statement = cells[4]
        transports = ("ws",) if section == "WST" else SOCKETS if section in (*CONNECTIONS, "XTR") else ("core",)
        assert id not in found, f"{id} stands twice in {TABLE.name}"
        found[id] = Requirement(id, levels, transports, statement)
    return found


REQUIREMENTS = read(TABLE.read_text(encoding="utf-8"))


def columns(ids: Sequence[str], given: Sequence[str] = ()) -> list[tuple[str, str]]:
    """The versions and transports for which a test runs: wherever the first requirement it names binds.

    `given` are the versions or transports that the test asks for instead.
    """
    first = REQUIREMENTS[ids[0]]
    versions = [name for name in VERSIONS if name in given] or first.levels
    transports = [name for name in TRANSPORTS if name in given] or first.transports
    return [
        (version, transport)
        for version, transport in COLUMNS
        if version in versions
        and transport in transports
        and (transport in given or version not in first.levels or first.binds(version, transport))
    ]
