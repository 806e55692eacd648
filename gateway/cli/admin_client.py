"""Client of the admin API: one connection, kept open, with a limit for each wait."""

from __future__ import annotations

import http.client
import json
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from gateway.client.tls import context_of, reason_of

# Seconds for an answer: the user at a terminal waits.
_TIMEOUT = 5.0


class NoAnswer(Exception):
    """The gateway does not answer, or refuses; the text is one sentence.  `is_refusal`: a repetition would not help."""

    def __init__(self, sentence: str, *, is_refusal: bool = False) -> None:
        super().__init__(sentence)
        self.is_refusal = is_refusal


class AdminClient:
    """One gateway, by the URL of its HTTP port, perhaps with a path before /api.

    Files are named as in `gateway.client.tls`.  Raises ValueError, with a sentence: the URL is wrong, or a file.
    """

    def __init__(self, url: str, token: str = "", ca: str = "", cert: str = "", key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url[:80]!r} names no gateway: write http://host:port")
        self.url = url
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._ca, self._cert = ca, cert
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = context_of(ca, cert, key)
            self._connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=_TIMEOUT, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT)

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """The answer of /api/v1/PATH.  Raises NoAnswer: there is none, or a refusal."""
        target = f"{self._prefix}/api/v1/{path}?{urlencode(query)}"
        try:
            self._connection.request("GET", target, headers=self._headers)
            answer = self._connection.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request opens a new one
            reason = reason_of(error, self._ca, self._cert) if isinstance(error, OSError) else ""
            raise NoAnswer(f"{self.url} does not answer: {reason or error or type(error).__name__}") from None
        try:
            told = json.loads(content)
        except ValueError:
            told = None
        if status == 200 and isinstance(told, dict):
            return told
        said = told.get("error") if isinstance(told, dict) else None
        if status == HTTPStatus.UNAUTHORIZED:  # the API's own sentence is for authors of requests
            said = (
                "it wants the admin token: --token-file, GATEWAY_ADMIN_TOKEN, or the folder where the gateway's "
                "gateway.toml is"
            )
        raise NoAnswer(f"{self.url} says {status}: {said or 'the body is not JSON'}", is_refusal=status < 500)
