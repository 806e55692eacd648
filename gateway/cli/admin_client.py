"""Client of the admin API, for commands: the gateway of the settings, or of the option `--url`."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode, urlsplit

import click

from gateway.client.server import FileError, context_of, unreachable
from gateway.config.toml_file import config_file

# Seconds for an answer: the user at a terminal waits.
_TIMEOUT = 5.0
_PIECE = 1024 * 1024  # bytes of a download at a time


class NoAnswer(Exception):
    """The gateway does not answer, or refuses; the text is one sentence.  `is_refusal`: a repetition would not help."""

    def __init__(self, sentence: str, *, is_refusal: bool = False) -> None:
        super().__init__(sentence)
        self.is_refusal = is_refusal


class AdminClient:
    """A client of the admin API of one gateway, on one connection; the URL may have a path before /api.

    Files are named as in `gateway.client.server`.  Raises ValueError, with a sentence: the URL is wrong, or a file.
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

    def download(self, path: str, to: BinaryIO) -> None:
        """Write the bytes of /api/v1/PATH.  Raises NoAnswer: there is none, a refusal, or a part alone; OSError: the
        file cannot be written."""
        answer = self._ask(path)
        if answer.status != HTTPStatus.OK:
            raise self._refusal(answer.status, self._read_object(answer))
        left = int(answer.getheader("content-length") or 0)
        while left:
            with self._on_the_line():
                piece = answer.read(min(left, _PIECE))
            if not piece:
                self._connection.close()
                raise NoAnswer(f"{self.url} ended the copy early: its log says why")
            left -= len(piece)
            to.write(piece)

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """The answer of /api/v1/PATH.  Raises NoAnswer: there is none, or a refusal."""
        answer = self._ask(f"{path}?{urlencode(query)}")
        told = self._read_object(answer)
        if answer.status == HTTPStatus.OK and told is not None:
            return told
        raise self._refusal(answer.status, told)

    def _ask(self, target: str) -> http.client.HTTPResponse:
        with self._on_the_line():
            self._connection.request("GET", f"{self._prefix}/api/v1/{target}", headers=self._headers)
            return self._connection.getresponse()

    def _read_object(self, answer: http.client.HTTPResponse) -> dict[str, Any] | None:
        """The JSON object of an answer; None: it has none."""
        with self._on_the_line():
            content = answer.read()
        try:
            told = json.loads(content)
        except ValueError:
            return None
        return told if isinstance(told, dict) else None

    @contextmanager
    def _on_the_line(self) -> Iterator[None]:
        """Make NoAnswer of a connection that fails in the block."""
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request opens a new one
            reason = unreachable(error, self._ca, self._cert) if isinstance(error, OSError) else str(error)
            raise NoAnswer(f"{self.url} does not answer: {reason or type(error).__name__}") from None

    def _refusal(self, status: int, told: dict[str, Any] | None) -> NoAnswer:
        said = told.get("error") if told is not None else None
        if status == HTTPStatus.UNAUTHORIZED:  # the API's own sentence is for authors of requests
            said = f"it wants the admin token: --token-file, GATEWAY_ADMIN_TOKEN, or admin_token in {config_file()}"
        return NoAnswer(f"{self.url} says {status}: {said or 'the body is not JSON'}", is_refusal=status < 500)


def admin_client_of(url: str | None, token_file: Path | None, *files: str) -> AdminClient:
    """The client of the options `--url`, `--token-file` and those of files.  Raises click.ClickException."""
    from gateway.config.settings import Address, SettingsError, load

    token = token_file.read_text().strip() if token_file is not None else None
    try:
        if url is None or token is None:
            settings = load()
            token = settings.admin_token if token is None else token
            address = next((each for each in map(Address.parse, settings.http) if not each.path), None)
            if url is None and address is None:
                raise click.UsageError("the setting http names no port; name the gateway by --url")
            url = url or f"http://{address}"
        return AdminClient(url, token, *files)
    except (SettingsError, FileError) as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
