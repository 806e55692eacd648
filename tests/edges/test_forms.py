"""What goes over a link is the same at both ends."""

from __future__ import annotations

import pytest

from gateway.broker.errors import (
    HeaderMissing,
    LoginRefused,
    NotAllowed,
    NotStored,
    RenewalRefused,
    SessionEnded,
    SlowConsumer,
    TakenOver,
    error_frame,
)
from gateway.broker.model.identity import Identity
from gateway.codec import V12, VERSIONS, Frame, Head, MalformedFrame, ProtocolError, Version, encoder
from gateway.edges.forms import error_of, fields_of_error, fields_of_login, login_of
from gateway.transports.flow.connected import Login


class OfAnotherModule(NotAllowed):
    """An error that links know as its base."""


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError("internal error", "a sentence"),
        MalformedFrame("malformed", "a line without a colon"),
        HeaderMissing("SEND", "destination", "a hint"),
        NotStored("the disk is full"),
        SessionEnded("server is shutting down", "connect again", retry_after=2000),
        RenewalRefused("the token has expired", "r-1"),
        SlowConsumer("it read nothing", "max_outbound"),
        TakenOver("another session", "a name"),
        LoginRefused("wrong passcode"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error(error: ProtocolError) -> None:
    frame = Frame(Head("SEND", {"receipt": "1"}), b"")
    found = error_of(fields_of_error(error))
    assert type(found) is type(error)
    assert vars(found) == vars(error)
    told = [error_frame(each, frame, V12, end=encoder.END) for each in (found, error)]
    assert told[0] == told[1], "message, detail, retry-after and receipt-id"


def test_an_error_that_is_not_known() -> None:
    found = error_of(fields_of_error(OfAnotherModule("no", "a sentence")))
    assert type(found) is NotAllowed
    assert (str(found), found.detail) == ("no", "a sentence")


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_login(version: Version) -> None:
    identity = Identity("alice", frozenset({"b", "a"}), 17.5, "token")
    login = Login(version, (1000, 0), "client", identity, "[::1]:7", "websocket", "::1", b"\0")
    assert login_of(fields_of_login(login)) == login
