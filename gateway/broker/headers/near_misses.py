"""Near misses: names of headers that are known names in other capitals, or with their hyphens lost.

Only names whose header does something are looked for; and the table of other words is short, for every one of them must
be sure to mean that header and nothing of the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from .row import HeaderEntry, Treatment

OTHER_WORDS = {"prefetch": "prefetch-count", "prefetch-size": "prefetch-count", "ack-mode": "ack"}
"""What people write, of which no broker reads any, and the header that they mean."""


def squashed(name: str) -> str:
    """What is left of a name without capitals and hyphens: `Prefetch-Count`, `prefetch_count`: `prefetchcount`."""
    return name.lower().replace("-", "").replace("_", "")


def near_misses(index: Mapping[str, HeaderEntry]) -> Mapping[str, HeaderEntry]:
    """The headers of a frame that do something, by what is left of their names."""
    known = {name: entry for name, entry in index.items() if entry.row.fate in (Treatment.HONOURED, Treatment.REFUSED)}
    others = {other: index[name] for other, name in OTHER_WORDS.items()}
    return {squashed(name): entry for name, entry in (known | others).items()}
