"""Credentials of a client of NATS: user and password, token, NKey, or a credentials file with JWT and NKey.

An NKey is a key pair of Ed25519 in base32, with a prefix for its kind and a CRC-16 (ADR-14).  The server sends a nonce,
and the client signs it.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_SEED = 18 << 3  # 'S'
_USER = 20 << 3  # 'U'

_SECTION = re.compile(r"-+BEGIN ([A-Z ]+)-+\s+(\S+)\s+-+END [A-Z ]+-+")


class CredentialsError(Exception):
    """The credentials cannot be used; `str()` is one sentence without any secret."""


@dataclass(frozen=True, slots=True)
class NatsCredentials:
    """What a client shows the server; all empty: nothing.

    `seed`: of an NKey, like `SU...`.  `jwt`: of the user, with a seed beside it.
    """

    user: str = ""
    password: str = ""
    token: str = ""
    seed: str = ""
    jwt: str = ""

    @classmethod
    def of_file(cls, path: Path) -> NatsCredentials:
        """Read a credentials file (`nsc generate creds`), or a file with the seed of an NKey alone.

        Raises CredentialsError: the file cannot be read, or has neither.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise CredentialsError(f"{path} cannot be read: {reason}") from None
        sections = dict(_SECTION.findall(text))
        seed = sections.get("USER NKEY SEED", "" if sections else text.strip())
        jwt = sections.get("NATS USER JWT", "")
        if not seed or (sections and not jwt):
            raise CredentialsError(f"{path} is no credentials file of NATS: it needs a user JWT and an NKey seed")
        try:
            _key_of(seed)
        except CredentialsError as error:
            raise CredentialsError(f"{path}: {error}") from None
        return cls(seed=seed, jwt=jwt)

    def fields(self, nonce: str) -> dict[str, str]:
        """The fields of CONNECT.

        `nonce`: of the server's INFO; empty: it asks for no signature.  Raises CredentialsError: the seed is none.
        """
        if self.seed:
            key, public = _key_of(self.seed)
            signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
            return {"jwt": self.jwt, "sig": signature} if self.jwt else {"nkey": public, "sig": signature}
        if self.token:
            return {"auth_token": self.token}
        return {"user": self.user, "pass": self.password} if self.user else {}


def _key_of(seed: str) -> tuple[Ed25519PrivateKey, str]:
    """The private key of a user's seed, and the public one as NATS writes it."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError):
        raise CredentialsError("the seed of the NKey is not in base32") from None
    if len(raw) != 36 or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise CredentialsError("the seed of the NKey is not whole: its checksum is wrong")
    if raw[0] & 0xF8 != _SEED or ((raw[0] & 7) << 5 | raw[1] >> 3) != _USER:
        raise CredentialsError("the NKey is not the seed of a user: such a seed begins with SU")
    key = Ed25519PrivateKey.from_private_bytes(raw[2:34])
    body = bytes([_USER]) + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    checked = body + binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return key, base64.b32encode(checked).rstrip(b"=").decode()
