"""Errors carry what the peer may read, and nothing else."""

from __future__ import annotations

import pytest

from gateway.codec import LimitExceeded, MalformedFrame, ProtocolError


@pytest.mark.parametrize("kind", [ProtocolError, MalformedFrame, LimitExceeded])
def test_message_and_detail(kind: type[ProtocolError]) -> None:
    error = kind("short", "long")
    assert isinstance(error, ProtocolError)
    assert (str(error), error.detail) == ("short", "long")


def test_detail_may_be_missing() -> None:
    assert ProtocolError("short").detail == ""
