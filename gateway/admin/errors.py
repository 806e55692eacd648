"""How the API says no: one exception, and one form of the answer.

Whatever cannot be answered raises `Refused` from wherever it is found out; `site` makes the answer of it, and `serving`
the line of the audit log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from gateway.config.settings import Settings


class Refused(Exception):
    """The request is not carried out; `str()` is the one sentence that the client is told.

    Args:
        status: of the answer.
        headers: that it has besides.
        logged: what the log is told instead, where the sentence repeats what somebody wrote in the wrong place, and
            might be a secret; empty: the sentence.
    """

    def __init__(
        self, status: int, sentence: str, headers: Mapping[str, str] | None = None, *, logged: str = ""
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = dict(headers or {})
        self.logged = logged or sentence


class BadQuery(Refused):
    """A parameter of the query is wrong."""

    def __init__(self, sentence: str, *, logged: str = "") -> None:
        super().__init__(400, sentence, logged=logged)


def come_back(settings: Settings) -> dict[str, str]:
    """The header of a refusal while the gateway drains: the seconds after which there should be one again."""
    return {"retry-after": str(math.ceil(settings.drain_retry / 1000))}


def error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error as the API tells it."""
    return JSONResponse({"error": sentence}, status, headers)
