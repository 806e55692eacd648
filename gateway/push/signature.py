"""Signatures of requests, as the Standard Webhooks specification has them (standardwebhooks.com).

    webhook-id          of the message: the same for each attempt
    webhook-timestamp   seconds since the epoch: of this attempt
    webhook-signature   "v1," and the base64 of HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"); one for each secret, by spaces

A secret is the base64 of 24 to 64 random bytes, behind `whsec_`.  A file has one on each line; with two the receiver
may change from one to the other.  The file is read again when it has changed, so a rotation needs no restart.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from pathlib import Path

import structlog

log = structlog.get_logger("gateway.push")

PREFIX = "whsec_"
MOST_SECRETS = 3
_FEWEST, _MOST = 24, 64  # bytes of a secret
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,128}")


class SecretError(ValueError):
    """A secret cannot be used; the text is a sentence, without the secret."""


def read_secret(text: str) -> bytes:
    """The bytes of a secret.  Raises SecretError."""
    try:
        if not text.startswith(PREFIX):
            raise ValueError
        found = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise SecretError(f'is no secret: write {PREFIX} and base64, as "openssl rand -base64 32" makes it') from None
    if not _FEWEST <= len(found) <= _MOST:
        raise SecretError(f"has {len(found)} bytes, and a secret must have {_FEWEST} to {_MOST}")
    return found


def read_secrets(path: Path) -> tuple[bytes, ...]:
    """The secrets of a file.  Raises SecretError: it cannot be read, or has none, or too many."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SecretError(f"the secret file {path} cannot be read: {reason}") from None
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            try:
                found.append(read_secret(text))
            except SecretError as error:
                raise SecretError(f"the secret file {path}: line {number} {error}") from None
    if not 1 <= len(found) <= MOST_SECRETS:
        raise SecretError(f"the secret file {path} has {len(found)} secrets, and must have 1 to {MOST_SECRETS}")
    return tuple(found)


class SecretFile:
    """The secrets of a file, which may change.  Raises SecretError: it cannot be used at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = self._look()
        self._secrets = read_secrets(path)

    def secrets(self) -> tuple[bytes, ...]:
        """Those of the file now; of a file that cannot be used any more, the last ones."""
        state = self._look()
        if state != self._state:
            self._state = state
            try:
                self._secrets = read_secrets(self._path)
            except SecretError as error:
                log.warning("the secrets stay as they were", reason=str(error))
            else:
                log.info("the secrets were read again", file=str(self._path), secrets=len(self._secrets))
        return self._secrets

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def webhook_id(name: str) -> str:
    """The id of a message in the header `webhook-id`, which must not have the dot that separates the signed parts."""
    if _SAFE.fullmatch(name):
        return name
    return f"msg_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def sign(secrets: tuple[bytes, ...], name: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers; without secrets there is no signature."""
    headers = {"webhook-id": name, "webhook-timestamp": str(timestamp)}
    if secrets:
        signed = f"{name}.{timestamp}.".encode() + body
        digests = [hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets]
        headers["webhook-signature"] = " ".join([f"v1,{base64.b64encode(each).decode()}" for each in digests])
    return headers
