"""What tokens and cookies say of a user, in every shape."""

from __future__ import annotations

import pytest

from gateway.auth.claims import find, groups_of, user_of


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
def test_find(data: dict[str, object], name: str, found: object) -> None:
    assert find(data, name) == found


@pytest.mark.parametrize("value", ["alice", "alice@example.org", "Ällice B.", "x" * 1024, "a/b.*#"])
def test_names(value: str) -> None:
    assert user_of(value) == value


def test_a_number_is_a_name() -> None:
    assert user_of(42) == "42"
    assert user_of(True) is None
    assert user_of(-(10**99)) == "-1" + "0" * 99
    for value in (10**100, -(10**100), 10**5000):  # of the last, Python writes no text
        assert user_of(value) is None


@pytest.mark.parametrize(
    "value", ["", " ", " a", "a ", "a\nb", "a\0", "anonymous", "\u200b", "\ud800", "x" * 1025, None, 1.5, [], {}, b"a"]
)
def test_no_names(value: object) -> None:
    assert user_of(value) is None


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
