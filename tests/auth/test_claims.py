"""Claims: HTTP Basic, tokens, cookies and certificates name users in every shape."""

from __future__ import annotations

import base64

import pytest

from gateway.auth.claims import CertificateUsers, basic_of, find, groups_of, login_of, user_of
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Certificate, Credentials, Identity, Upgrade


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


UPGRADE = Upgrade(authorization=basic("bob:tea"))


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
def test_http_basic(text: str, found: tuple[str, str] | None) -> None:
    assert basic_of(text) == found


@pytest.mark.parametrize(
    ("credentials", "login"),
    [
        (Credentials(), ""),
        (Credentials("alice", "x", upgrade=UPGRADE), "alice"),
        (Credentials("alice", "", upgrade=UPGRADE), "bob"),
        (Credentials("alice", upgrade=Upgrade()), "alice"),
        (Credentials(passcode="x", upgrade=UPGRADE), ""),
    ],
)
def test_the_login_beside_the_passcode(credentials: Credentials, login: str) -> None:
    assert login_of(credentials) == login


@pytest.mark.parametrize(
    ("data", "name", "found"),
    [
        ({"sub": "a"}, "sub", "a"),
        ({}, "sub", None),
        ({"realm": {"roles": [1]}}, "realm.roles", [1]),
        ({"https://x.example/groups": ["a"], "https://x": 1}, "https://x.example/groups", ["a"]),
        ({"realm": 5}, "realm.roles", None),
        ({"a": {"b": {"c": 7}}}, "a.b.c", 7),
        ({"a": None}, "a.b", None),
    ],
)
def test_a_dot_goes_one_level_deeper(data: dict[str, object], name: str, found: object) -> None:
    assert find(data, name) == found


def test_names_of_users() -> None:
    for name in ("alice@example.org", "Ällice B.", "x" * 1024, "a/b.*#"):
        assert user_of(name) == name
    for number in (42, -(10**99)):
        assert user_of(number) == str(number)
    too_large = (10**100, -(10**100), 10**5000)  # Python writes no text of the last
    unprintable = ("a\nb", "a\0", "\u200b", "\ud800")
    of_other_types = (None, True, 1.5, [], {}, b"a")
    for wrong in ("", " ", " a", "a ", "anonymous", "x" * 1025, *of_other_types, *too_large, *unprintable):
        assert user_of(wrong) is None, wrong


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        (["a", "b", "a"], {"a", "b"}),
        (["a", 1, "", None, ["b"]], {"a"}),
        ("ops traders,x", {"ops", "traders", "x"}),
        ("", set()),
        ({" t": ["a", "b"]}, {"a", "b"}),
        ({"a": 1}, set()),
        (None, set()),
        (7, set()),
    ],
)
def test_groups(value: object, groups: set[str]) -> None:
    assert groups_of(value) == groups


async def test_names_in_a_certificate() -> None:
    names = ("uri:spiffe://x/y", "dns:a.example", "dns:b.example", "email:a@b.example")
    for kind, user in {
        "common-name": "alice",
        "subject": "CN=alice,O=x",
        "dns": "a.example",
        "email": "a@b.example",
        "uri": "spiffe://x/y",
    }.items():
        found = await CertificateUsers(kind).identify(Certificate("CN=alice,O=x", "alice", names, 2e9))
        assert found == Identity(user, expires=2e9, method="certificate")
        if kind != "subject":
            with pytest.raises(LoginRefused) as error:
                await CertificateUsers(kind).identify(Certificate("O=x", "", ("other:x",)))
            assert error.value.detail == f"the client certificate has no name of the kind {kind} (tls_user)"
            assert not error.value.is_guess
    with pytest.raises(LoginRefused):
        await CertificateUsers("common-name").identify(Certificate("CN=a", "a\nb"))
