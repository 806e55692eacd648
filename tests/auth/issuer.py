"""An issuer of tokens: its keys, made once, and tokens signed with them in every way that is right or wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = "0123456789abcdef0123456789abcdef"  # 32 octets
LONG_SECRET = SECRET * 2


def private(kind: str, number: int = 0) -> Any:
    """A private key: RSA, RSA-1024, P-256, P-384, P-521, k1, Ed25519; each number is another one."""
    return _made(kind, number)


@cache
def _made(kind: str, number: int) -> Any:
    if kind.startswith("RSA"):
        return rsa.generate_private_key(65_537, int(kind.partition("-")[2] or 2048))
    if kind == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1(), "k1": ec.SECP256K1()}
    return ec.generate_private_key(curves[kind])


def public_pem(kind: str, number: int = 0) -> str:
    key = private(kind, number).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()  # type: ignore[no-any-return]


def public_der(kind: str) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private(kind).public_key().public_bytes(serialization.Encoding.DER, form)  # type: ignore[no-any-return]


def private_octets(kind: str, encoding: serialization.Encoding = serialization.Encoding.PEM) -> bytes:
    return private(kind).private_bytes(  # type: ignore[no-any-return]
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def openssh(kind: str) -> bytes:
    encoding, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return private(kind).public_key().public_bytes(encoding, form)  # type: ignore[no-any-return]


def jwk(kind: str, number: int = 0, *, secret: bool = False, **more: object) -> dict[str, object]:
    """A key of a JWKS."""
    algorithm = RSAAlgorithm if kind == "RSA" else OKPAlgorithm if kind == "Ed25519" else ECAlgorithm
    key = private(kind, number)
    found = algorithm.to_jwk(key if secret else key.public_key(), as_dict=True)
    found.pop("key_ops", None)
    return found | more


def jwks(*keys: dict[str, object]) -> str:
    return json.dumps({"keys": list(keys)})


def claims(**more: object) -> dict[str, object]:
    """Of alice, for a minute; None leaves a claim out."""
    found = {"sub": "alice", "exp": int(time.time()) + 60} | more
    return {name: value for name, value in found.items() if value is not None}


def token(algorithm: str, key: object, kid: str | None = None, **more: object) -> str:
    return jwt.encode(claims(**more), key, algorithm, headers={"kid": kid} if kid else None)  # type: ignore[arg-type]


def signed(secret: bytes, header: dict[str, object], payload: bytes) -> str:
    """HS256, whatever the key and the contents are: no library would do that."""
    body = ".".join([b64(json.dumps(header).encode()), b64(payload)])
    return f"{body}.{b64(hmac.new(secret, body.encode(), hashlib.sha256).digest())}"


def b64(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def write(path: Path, text: str) -> None:
    """For tests that are `async`."""
    path.write_text(text)
