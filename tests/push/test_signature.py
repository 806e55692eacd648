"""Signatures: the vector that Standard Webhooks publishes, rotation, and files that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.push import signature
from gateway.push.signature import SecretError, SecretFile, read_secret, read_secrets, sign, webhook_id

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "A" * 32
VECTOR = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_vector() -> None:
    name, timestamp, body = VECTOR
    assert sign((read_secret(SECRET),), name, timestamp, body) == {
        "webhook-id": name,
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_two_secrets() -> None:
    found = sign((read_secret(OTHER), read_secret(SECRET)), *VECTOR)["webhook-signature"].split(" ")
    assert found[1] == SIGNATURE
    assert found[0].startswith("v1,")
    assert found[0] != SIGNATURE


def test_none() -> None:
    assert "webhook-signature" not in sign((), *VECTOR)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("e807bea1-3", "e807bea1-3"),
        ("T_1@@session-a.b@@3", "msg_"),
        ("", "msg_"),
        ("a" * 129, "msg_"),
    ],
)
def test_an_id_has_no_dot(name: str, expected: str) -> None:
    assert webhook_id(name).startswith(expected)
    assert webhook_id(name) == webhook_id(name)
    assert "." not in webhook_id(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("abc", "is no secret: write whsec_ and base64"),
        ("whsec_!", "is no secret"),
        ("whsec_" + "A" * 28, "has 21 bytes, and a secret must have 24 to 64"),
        ("whsec_" + "A" * 88, "has 66 bytes"),
    ],
)
def test_what_is_no_secret(text: str, said: str) -> None:
    with pytest.raises(SecretError, match=said) as refused:
        read_secret(text)
    assert text[6:] not in str(refused.value) or len(text) < 8


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has 0 secrets, and must have 1 to 3"),
        (f"# new\n{SECRET}\nold\n".encode(), "line 3 is no secret"),
        (f"{SECRET}\n".encode() * 4, "has 4 secrets"),
        (b"\xff", "it is not UTF-8"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.secret"
    path.write_bytes(content)
    with pytest.raises(SecretError, match=said):
        read_secrets(path)


def test_a_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    log = SimpleNamespace(info=lambda event, **_: told.append(event), warning=lambda event, **_: told.append(event))
    monkeypatch.setattr(signature, "log", log)
    path = tmp_path / "a.secret"
    path.write_text(f"{SECRET}\n")
    secrets = SecretFile(path)
    assert secrets.secrets() == (read_secret(SECRET),)
    fresh = tmp_path / "fresh"
    fresh.write_text(f"# the new one first\n{OTHER}\n\n{SECRET}\n")
    os.replace(fresh, path)
    assert secrets.secrets() == (read_secret(OTHER), read_secret(SECRET))
    path.unlink()
    assert secrets.secrets() == (read_secret(OTHER), read_secret(SECRET)), "those that are known go on"
    assert told == ["the secrets were read again", "the secrets stay as they were"]
