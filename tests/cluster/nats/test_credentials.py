"""Credentials: keys and signatures as other clients of NATS make them, and no secret in a refusal."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gateway.cluster.nats.credentials import CredentialsError, NatsCredentials

# The example of NATS' documentation, and a signature that another client of NATS made with it.
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
NONCE = "DhXdTMAeiHhLDig"
SIGNATURE = "WosANJXgeyxerXFo0twRiMG+/ZjYp1K/46bFeFax705yFTCTjM18jWl01gGYk4KKbadiHd+hP3WgUQ2iLZUAAA=="
SIGNED = base64.urlsafe_b64encode(base64.b64decode(SIGNATURE)).rstrip(b"=").decode()

# An account's seed, of the same 32 bytes.
ACCOUNT = "SAACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCTIMI"

CREDENTIALS = f"""\
-----BEGIN NATS USER JWT-----
eyJ0eXAi.eyJqdGki.c2ln
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------

*************************************************************
"""


def test_a_seed_signs_as_other_clients_do() -> None:
    assert NatsCredentials(seed=SEED).fields(NONCE) == {"nkey": PUBLIC, "sig": SIGNED}


@pytest.mark.parametrize("text", [CREDENTIALS, CREDENTIALS.replace("\n", "\r\n")])
def test_a_credentials_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "user.creds"
    path.write_bytes(text.encode())
    found = NatsCredentials.of_file(path)
    assert found.fields(NONCE) == {"jwt": "eyJ0eXAi.eyJqdGki.c2ln", "sig": SIGNED}


def test_a_file_with_a_seed_alone(tmp_path: Path) -> None:
    path = tmp_path / "user.nk"
    path.write_text(f"{SEED}\n")
    assert NatsCredentials.of_file(path).fields(NONCE) == {"nkey": PUBLIC, "sig": SIGNED}


@pytest.mark.parametrize(
    ("credentials", "fields"),
    [
        (NatsCredentials(), {}),
        (NatsCredentials("ada", "secret"), {"user": "ada", "pass": "secret"}),
        (NatsCredentials(token="secret"), {"auth_token": "secret"}),
    ],
)
def test_what_needs_no_signature(credentials: NatsCredentials, fields: dict[str, str]) -> None:
    assert credentials.fields("") == fields


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it needs a user JWT and an NKey seed"),
        (CREDENTIALS.partition("***")[0], "it needs a user JWT and an NKey seed"),
        (CREDENTIALS.partition("***")[2], "it needs a user JWT and an NKey seed"),
        (SEED.lower(), "is not in base32"),
        (SEED.replace("A", "1"), "is not in base32"),
        (SEED + "é", "is not in base32"),
        (SEED[:-1], "is not"),
        (SEED[:-2] + "AA", "its checksum is wrong"),
        (SEED.replace("X", "Y", 1), "its checksum is wrong"),
        (PUBLIC, "is not"),
        (ACCOUNT, "such a seed begins with SU"),
        (CREDENTIALS.replace(SEED, ACCOUNT), "such a seed begins with SU"),
    ],
    ids=range(12),
)
def test_a_refusal_is_a_sentence_without_the_secret(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "user.creds"
    path.write_text(text)
    with pytest.raises(CredentialsError, match=reason) as refusal:
        NatsCredentials.of_file(path)
    said = str(refusal.value)
    assert str(path) in said
    assert SEED[8:20] not in said
    assert SEED[8:20].lower() not in said


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(CredentialsError, match=f"{path} cannot be read: "):
            NatsCredentials.of_file(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(CredentialsError, match="it is not text"):
        NatsCredentials.of_file(tmp_path / "binary")
