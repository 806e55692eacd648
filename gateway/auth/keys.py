"""Keys that tokens are signed with, read from a file.

    -----BEGIN PUBLIC KEY-----      PEM: a public key, or a certificate that has one; several may follow each other
    {"keys": [{"kty": ...}]}        JWKS, or one JWK alone
    anything else                   a secret

The content decides which algorithms a key verifies, never a token, and no key has the algorithm `none`.  A public key
must never be taken for a secret (`alg` confusion), because every client can have it: contents that look like a key in
another form, or with words around it, are refused.  A private key is refused, because verifying needs none.
"""

import base64
import codecs
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm

from gateway.files import FileFault, read_bytes

MAX_FILE = 1024 * 1024  # bytes of the file: some hundred keys are a tenth of that
MAX_KEYS = 100  # keys of one file. A token that does not name its key is tried with each that fits.
SHORTEST_SECRET = 32  # bytes: as many as the hash has (RFC 7518, section 3.2)

_SHORTEST_RSA = 2048
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
# Measured on a 2-core machine: 640 us for ES384, 620 for ES512; RSA grows with the square of its bits.
_SLOW = {"ES384", "ES512"}
_LARGE_RSA = 4096
_SECRETS = {32: "HS256", 48: "HS384", 64: "HS512"}

_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_OPENSSH = re.compile(rb"(ssh|ecdsa|sk)-[a-z0-9@.-]+ AAAA")


@dataclass(frozen=True, slots=True)
class Key:
    """A key that verifies tokens."""

    algorithms: frozenset[str]  # as tokens name them
    key: Any = field(repr=False)  # as PyJWT wants it
    kid: str = ""  # its name in tokens; empty: it has none, and is tried for each token

    @property
    def is_slow(self) -> bool:
        """True if verifying takes too long for the loop."""
        return bool(self.algorithms & _SLOW) or (self.algorithms <= _RSA and self.key.key_size > _LARGE_RSA)


def read_keys(path: Path, max_keys: int = MAX_KEYS) -> list[Key]:
    """The keys of a file.  Raises FileFault: the file cannot be read, or holds no usable key."""
    data = read_bytes(path, MAX_FILE, "a file of keys")
    try:
        keys = _keys_of(data)
    except ValueError as error:
        raise FileFault(f"{path} {error}") from None
    if len(keys) > max_keys:
        raise FileFault(f"{path} has {len(keys)} keys, and may have at most {max_keys}")
    return keys


def _keys_of(data: bytes) -> list[Key]:
    # A ValueError says what is wrong, and follows the name of the file.
    text = data.removeprefix(codecs.BOM_UTF8)
    if b"-----BEGIN" in text:
        return _of_pem(text)
    if text.lstrip().startswith(b"{"):
        return _of_json(text)
    if _OPENSSH.search(text):
        raise ValueError("holds a key in OpenSSH's form; `ssh-keygen -e -m PKCS8` writes it as PEM")
    flat = text.replace(b"\0", b"")
    if b"-----BEGIN" in flat or b'"kty"' in flat:
        raise ValueError("has a key with something around it, or in UTF-16; write it as PEM or as a JWKS, in UTF-8")
    if _is_der(data) or _is_der(_from_base64(data)):
        raise ValueError("holds a key or a certificate in DER; write it as PEM, with its lines BEGIN and END")
    secret = data.rstrip(b"\r\n")
    return [Key(_algorithms_of_secret(secret), secret)]


def _of_pem(data: bytes) -> list[Key]:
    keys = []
    for block in _PEM.finditer(data):
        label = block[1].decode()
        if label.endswith("PRIVATE KEY"):
            raise ValueError("holds a private key; the gateway needs the public one only (`openssl pkey -pubout`)")
        try:
            if label == "CERTIFICATE":
                key: object = x509.load_pem_x509_certificate(block[0]).public_key()
            else:
                key = serialization.load_pem_public_key(block[0])
        except ValueError:
            raise ValueError(f"has a {label} that cannot be read") from None
        keys.append(Key(_algorithms_of(key), key))
    if not keys:
        raise ValueError("looks like PEM but holds no whole key")
    return keys


def _of_json(data: bytes) -> list[Key]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("looks like a JWKS but is no JSON") from None
    listed = found.get("keys", [found])
    if not isinstance(listed, list):
        raise ValueError("is no JWKS: keys must be an array")
    keys = [key for number, each in enumerate(listed, 1) if (key := _of_jwk(each, number)) is not None]
    if not keys:
        raise ValueError("has no key that verifies signatures by an algorithm that the gateway knows")
    return keys


def _of_jwk(jwk: object, number: int) -> Key | None:
    """A key of a JWKS; None: it does not verify signatures, but many servers list such keys."""
    if not isinstance(jwk, dict):
        raise ValueError(f"is no JWKS: key {number} must be an object")
    operations, algorithm = jwk.get("key_ops", ["verify"]), jwk.get("alg")
    if not isinstance(operations, list) or not isinstance(algorithm, (str, NoneType)):
        raise ValueError(f"has a key that cannot be read: number {number}")
    if jwk.get("use", "sig") != "sig" or "verify" not in operations:
        return None
    if "d" in jwk:
        raise ValueError(f"holds a private key: leave d, p, q and the like out of key {number}")
    try:
        key = _key_of_jwk(jwk)
    except (jwt.InvalidKeyError, ValueError, TypeError, KeyError):
        raise ValueError(f"has a key that cannot be read: number {number}") from None
    if key is None:
        return None
    algorithms = _algorithms_of_secret(key) if isinstance(key, bytes) else _algorithms_of(key)
    if algorithm is not None:
        algorithms &= {algorithm}
    kid = jwk.get("kid")
    return Key(algorithms, key, kid if isinstance(kid, str) else "") if algorithms else None


def _key_of_jwk(jwk: Mapping[str, Any]) -> object:
    if jwk.get("kty") == "RSA":
        return RSAAlgorithm.from_jwk(dict(jwk))
    if jwk.get("kty") == "EC" and jwk.get("crv") in ("P-256", "P-384", "P-521"):
        return ECAlgorithm.from_jwk(dict(jwk))
    if jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519":
        return OKPAlgorithm.from_jwk(dict(jwk))
    return HMACAlgorithm.from_jwk(dict(jwk)) if jwk.get("kty") == "oct" else None


def _algorithms_of(key: object) -> frozenset[str]:
    if isinstance(key, RSAPublicKey):
        if key.key_size < _SHORTEST_RSA:
            raise ValueError(f"has an RSA key of {key.key_size} bits, and {_SHORTEST_RSA} are needed")
        return _RSA
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return frozenset({_CURVES[key.curve.name]})
    if isinstance(key, Ed25519PublicKey):
        return frozenset({"EdDSA"})
    raise ValueError("has a key of another kind than RSA, P-256, P-384, P-521 and Ed25519")


def _algorithms_of_secret(secret: bytes) -> frozenset[str]:
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(
            f"holds a secret of {len(secret)} bytes, and {SHORTEST_SECRET} are needed: a shorter one can be guessed "
            "from any token (`openssl rand -hex 32` makes a good one)"
        )
    return frozenset(name for least, name in _SECRETS.items() if len(secret) >= least)


def _from_base64(data: bytes) -> bytes:
    """The contents of base64, as some consoles show a public key; empty: it is none."""
    with suppress(ValueError):
        return base64.b64decode(b"".join(data.split()), validate=True)
    return b""


def _is_der(data: bytes) -> bool:
    """True for a public key, a certificate or a private key in DER."""
    for load in (serialization.load_der_public_key, x509.load_der_x509_certificate):
        with suppress(ValueError, TypeError):
            load(data)
            return True
    with suppress(ValueError, TypeError):
        serialization.load_der_private_key(data, None)
        return True
    return False
