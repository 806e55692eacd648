"""The login that a client claims."""

from __future__ import annotations

import base64

import pytest

from gateway.auth.claims import basic_of, login_of
from gateway.broker.model.identity import Credentials, Upgrade


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (basic("alice:tea:pot"), ("alice", "tea:pot")),
        (basic("alice:"), ("alice", "")),
        (basic("alice:tea").replace("Basic", "bAsIc ") + " ", ("alice", "tea")),
        (basic("alice"), None),
        ("Basic YWxpY2U6dGVh!", None),
        ("Basic /w==", None),
        ("Bearer YWxpY2U6dGVh", None),
        ("", None),
    ],
)
def test_basic(text: str, found: tuple[str, str] | None) -> None:
    assert basic_of(text) == found


UPGRADE = Upgrade(authorization=basic("bob:tea"))


@pytest.mark.parametrize(
    ("shown", "login"),
    [
        (Credentials(), ""),
        (Credentials("alice", "x"), "alice"),
        (Credentials("alice"), "alice"),
        (Credentials("alice", "x", upgrade=UPGRADE), "alice"),
        (Credentials("alice", upgrade=UPGRADE), "bob"),
        (Credentials("alice", "", upgrade=UPGRADE), "bob"),
        (Credentials("alice", upgrade=Upgrade()), "alice"),
        (Credentials(passcode="x", upgrade=UPGRADE), ""),
    ],
)
def test_whose_failure_it_would_be(shown: Credentials, login: str) -> None:
    assert login_of(shown) == login
