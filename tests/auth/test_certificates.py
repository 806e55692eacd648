"""Users by certificate."""

from __future__ import annotations

import pytest

from gateway.auth.claims import CertificateUsers
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Certificate, Identity

NAMES = ("uri:spiffe://x/y", "dns:a.example", "dns:b.example", "email:a@b.example")
FULL = Certificate("CN=alice,O=x", "alice", NAMES, 2e9)


@pytest.mark.parametrize(
    ("kind", "user"),
    [
        ("common-name", "alice"),
        ("subject", "CN=alice,O=x"),
        ("dns", "a.example"),
        ("email", "a@b.example"),
        ("uri", "spiffe://x/y"),
    ],
)
async def test_names(kind: str, user: str) -> None:
    assert await CertificateUsers(kind).identify(FULL) == Identity(user, expires=2e9, method="certificate")


@pytest.mark.parametrize("kind", ["common-name", "dns", "email", "uri"])
async def test_none_of_that_kind(kind: str) -> None:
    with pytest.raises(LoginRefused) as error:
        await CertificateUsers(kind).identify(Certificate("O=x", "", ("other:x",)))
    assert error.value.detail == f"the client certificate has no name of the kind {kind} (tls_user)"
    assert not error.value.is_guess


async def test_a_name_that_is_none() -> None:
    with pytest.raises(LoginRefused):
        await CertificateUsers("common-name").identify(Certificate("CN=a", "a\nb"))
