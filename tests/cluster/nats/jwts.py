"""An operator with an account and users, as `nsc` makes them: keys, JWTs, a server's settings, credentials files."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import time
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3
_SEED = 18 << 3
_NO_LIMIT = {"subs": -1, "data": -1, "payload": -1}
_OF_ACCOUNT = {"imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
_STORAGE = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


class NKey(NamedTuple):
    """A key pair."""

    seed: str
    public: str
    private: Ed25519PrivateKey

    @classmethod
    def make(cls, kind: int) -> NKey:
        raw = secrets.token_bytes(32)
        private = Ed25519PrivateKey.from_private_bytes(raw)
        public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        seed = bytes([_SEED | kind >> 5, (kind & 31) << 3]) + raw
        return cls(_text(seed), _text(bytes([kind]) + public), private)


class Operator:
    """An operator with one account for the gateway, and one for the servers themselves."""

    def __init__(self) -> None:
        self._key, self._account, system = NKey.make(OPERATOR), NKey.make(ACCOUNT), NKey.make(ACCOUNT)
        limits = {"limits": _NO_LIMIT | _OF_ACCOUNT}
        accounts = {
            self._account: self._jwt(
                self._key, self._account.public, "account", {"limits": limits["limits"] | _STORAGE}
            ),
            system: self._jwt(self._key, system.public, "account", limits),
        }
        preload = "\n".join([f"{key.public}: {jwt}" for key, jwt in accounts.items()])
        own = {"system_account": system.public}
        self.settings = (
            f"operator: {self._jwt(self._key, self._key.public, 'operator', own)}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\n"
        )

    def credentials(self, name: str, seconds: float = 3600) -> str:
        """A credentials file of a new user."""
        user = NKey.make(USER)
        ends = {"exp": int(time.time() + seconds)}
        jwt = self._jwt(self._account, user.public, "user", dict(_NO_LIMIT), name=name, **ends)
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )

    @staticmethod
    def _jwt(issuer: NKey, subject: str, kind: str, facts: dict[str, object], **more: object) -> str:
        claims = {
            "jti": secrets.token_hex(16),
            "iat": int(time.time()),
            "iss": issuer.public,
            "sub": subject,
            "name": kind,
            "nats": {"type": kind, "version": 2, **facts},
            **more,
        }
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        signed = ".".join([_url(json.dumps(each).encode()) for each in (head, claims)])
        return f"{signed}.{_url(issuer.private.sign(signed.encode()))}"


def _text(body: bytes) -> str:
    checked = body + binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(checked).rstrip(b"=").decode()


def _url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
