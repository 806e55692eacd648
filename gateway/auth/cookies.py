"""Signed cookies of web applications: a user of the application needs no second login.

    Starlette, FastAPI   TimestampSigner over JSON in base64
    Flask, Quart         URLSafeTimedSerializer, with a salt and a key of its own, perhaps compressed

Both forms are accepted.  A browser sends the cookie with every page that opens the WebSocket, so it counts only with an
`Origin`, which the upgrade has checked.  The session lasts as long as the cookie: `cookie_age` from its signature on.
"""

import hashlib
import json
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from itsdangerous import BadData, TimestampSigner, URLSafeTimedSerializer

from gateway.auth.claims import find, groups_of, user_of
from gateway.auth.file_watch import WatchedFile
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity
from gateway.files import FileFault, read_text

MAX_FILE = 64 * 1024
SHORTEST_SECRET = 16  # bytes: Flask's documentation makes secrets of 32 hexadecimal digits, which have as many
_MOST_COOKIES = 4  # cookies of one name that are read: paths and domains may each have one
_LEEWAY = 10.0  # seconds by which the application's clock may be ahead of ours

Readers = tuple[TimestampSigner, URLSafeTimedSerializer]


def read_secrets(path: Path) -> Readers:
    """The secrets of a file, one a line, the newest first; raises FileFault."""
    lines = read_text(path, MAX_FILE, "a file of secrets").splitlines()
    secrets = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not secrets:
        raise FileFault(f"{path} holds no secret")
    for number, secret in secrets:
        if len(secret.encode()) < SHORTEST_SECRET:
            raise FileFault(
                f"line {number} of {path} is a secret of less than {SHORTEST_SECRET} bytes, which can be guessed; "
                "write a longer one"
            )
    oldest_first = [secret for _, secret in reversed(secrets)]
    flask = {"key_derivation": "hmac", "digest_method": hashlib.sha1}
    return (
        TimestampSigner(oldest_first),
        URLSafeTimedSerializer(oldest_first, salt="cookie-session", signer_kwargs=flask),
    )


class Cookies:
    """The authenticator of signed cookies; raises SettingsError where the file of secrets cannot be used."""

    def __init__(self, path: Path, *, name: str = "session", age: float = 43_200.0, user: str = "user") -> None:
        self.secrets = WatchedFile("cookie_keys", path, read_secrets)
        self._name = name
        self._age = age  # seconds for which a cookie is accepted
        self._user = user  # the key of its data that is the user's name; the groups are at `groups`

    def is_shown(self, field: str) -> bool:
        """True if a field `Cookie` has a cookie of our name."""
        return any(True for _ in self._values(field))

    async def identify(self, field: str) -> Identity:
        """The user of the cookie in a field `Cookie`.  Raises LoginRefused: the cookie is not accepted."""
        readers = await self.secrets.fresh()
        for value, _ in zip(self._values(field), range(_MOST_COOKIES), strict=False):
            found = _read(readers, value)
            if found is not None and (identity := self._identity(*found)) is not None:
                return identity
        detail = (
            f"the cookie {self._name!r} is older than {self._age:g} s (cookie_age), signed by another key, or names no "
            "user; log in to the application again"
        )
        raise LoginRefused(detail, is_guess=False, method="cookie", why=detail)

    def _identity(self, data: Mapping[str, Any], signed_at: float) -> Identity | None:
        age = time.time() - signed_at
        user = user_of(find(data, self._user))
        if user is None or not -_LEEWAY <= age <= self._age:
            return None
        return Identity(user, groups_of(data.get("groups")), signed_at + self._age, "cookie")

    def _values(self, field: str) -> Iterator[str]:
        for pair in field.split(";"):
            name, equals, value = pair.strip().partition("=")
            if equals and name == self._name:
                yield value.strip('"')


def _read(readers: Readers, value: str) -> tuple[dict[str, Any], float] | None:
    """The data of a cookie, and the time of its signature in seconds since the epoch; None: no key signed it."""
    starlette, flask = readers
    try:
        payload, signed = starlette.unsign(value, return_timestamp=True)
        data = json.loads(b64decode(payload))
    except (BadData, ValueError, RecursionError):
        try:
            data, signed = flask.loads(value, return_timestamp=True)
        except (BadData, ValueError, RecursionError):
            return None
    return (data, signed.timestamp()) if isinstance(data, dict) else None
