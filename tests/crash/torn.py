"""The end of a write-ahead log, damaged: what a power cut leaves of the commit that was being written.

    log     header of 32 octets, then frames: a header of 24 octets and a page each
    frame   page number; size of the file behind a commit, 0 in the frames before its last; salts; checksums

Frames of an older log may follow, with other salts: SQLite writes it again from the front.
"""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

_HEADER, _FRAME = 32, 24
_KINDS = ("cut", "zeros", "garbage", "flip")


def tear(log: Path, random: Random, most_frames: int) -> str:
    """Damage the last commit; what was done, or empty where nothing could be.

    Args:
        log: the `-wal` file; no process has it open.
        most_frames: with more of them, SQLite may have begun a checkpoint, for which the log was on the disk already.
    """
    data = log.read_bytes() if log.exists() else b""
    commits = _ends_of_commits(data)
    if not commits or commits[-1][1] >= most_frames:
        return ""
    end = commits[-1][0]
    start = commits[-2][0] if len(commits) > 1 else _HEADER
    at = random.randrange(start, end)
    kind = random.choice(_KINDS)
    with log.open("r+b") as file:
        if kind == "cut":
            file.truncate(at)
        else:
            file.seek(at)
            file.write(_damage(kind, data[at:end], random))
    return f"{kind} at {at} of {start}..{end}"


def _damage(kind: str, octets: bytes, random: Random) -> bytes:
    if kind == "zeros":
        return bytes(len(octets))
    if kind == "garbage":
        return random.randbytes(len(octets))
    return bytes([octets[0] ^ (1 << random.randrange(8))])


def _ends_of_commits(data: bytes) -> list[tuple[int, int]]:
    """Where each commit of the current log ends: the octet behind it, and how many frames there are up to it."""
    if len(data) < _HEADER:
        return []
    size, salts = struct.unpack(">I", data[8:12])[0], data[16:24]
    found, at, frames = [], _HEADER, 0
    while at + _FRAME + size <= len(data) and data[at + 8 : at + 16] == salts:
        frames += 1
        is_commit = data[at + 4 : at + 8] != bytes(4)
        at += _FRAME + size
        if is_commit:
            found.append((at, frames))
    return found
