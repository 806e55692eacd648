"""A gateway that is open, and its HTTP side, for the tests of the admin API.

Every answer is held against the OpenAPI document: the status must stand there, and the body must fit its schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jsonschema
from starlette.types import ASGIApp

from gateway import auth
from gateway.admin import openapi, site
from gateway.admin.access import AccessControl
from gateway.config.settings import Settings, load
from gateway.runtime.gateway import Gateway, open_gateway
from tests.app.asgi import LOCAL, Answer, request
from tests.transports.peers import Peer, dial

FREE = "127.0.0.1:0"
BASE = "/api/v1"
STRANGER = ("192.0.2.1", 1)
BEARER = {"authorization": "Bearer planted-token"}


class Running:
    """An open gateway, and a client of its API; `values` are the settings as a reload reads them."""

    def __init__(
        self, gateway: Gateway, settings: Settings, app: ASGIApp, document: dict[str, Any], values: dict[str, object]
    ) -> None:
        self.gateway = gateway
        self.values = values
        self.settings = settings
        self.app = app
        self.document = document
        self.headers: dict[str, str] = {}

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        client: tuple[str, int] | None = LOCAL,
        scheme: str = "http",
        **query: object,
    ) -> Answer:
        """One request; a path without `/` in front is one of the API."""
        full = path if path.startswith("/") else f"{BASE}/{path}"
        fields = {**self.headers, **(headers or {})}
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            fields.setdefault("content-type", "application/json")
        text = f"?{urlencode(query)}" if query else ""
        answer = await request(
            self.app, full + text, method=method, headers=fields, client=client, scheme=scheme, body=data
        )
        check(self.document, method, full.partition("?")[0], answer)
        return answer

    async def get(self, path: str, **query: object) -> Any:
        """The answer of a GET that succeeds."""
        answer = await self.ask("GET", path, **query)  # type: ignore[arg-type]
        assert answer.status == 200, answer.body
        return answer.json

    async def post(self, path: str, body: object = None, *, status: int = 200) -> Any:
        """The answer of a POST that ends so."""
        answer = await self.ask("POST", path, body)
        assert answer.status == status, answer.body
        return answer.json if answer.body else None

    async def peer(self, kind: str = "tcp", **headers: str) -> Peer:
        """A client that has connected."""
        peer = await dial(kind, self.gateway.addresses[kind][0])
        await peer.connect(**headers)
        return peer


def check(document: dict[str, Any], method: str, path: str, answer: Answer) -> None:
    """Hold an answer against the document."""
    found = [each for each in document["paths"] if re.fullmatch(re.sub("{[^}]*}", "[^/]+", each), path)]
    operations = document["paths"][found[0]] if found else {}
    operation = operations.get(method.lower())
    if operation is None:
        assert answer.status in {404, 405}
        return
    response = operation["responses"].get(str(answer.status))
    assert response is not None, f"{method} {path} ends with {answer.status}, which is not documented"
    if "content" not in response:
        assert answer.body == b""
        return
    ((media_type, content),) = response["content"].items()
    assert answer.headers["content-type"].partition(";")[0] == media_type
    if media_type == "application/json":
        schema = {**content["schema"], "components": document["components"]}
        jsonschema.validate(answer.json, schema, cls=jsonschema.Draft202012Validator)


def settings_of(**values: object) -> Settings:
    """Settings for tests: free ports, and no failure waits."""
    return load(**{"tcp": FREE, "websocket": FREE, "close_linger": 0.2, "login_delay": 0.0, **values})


@asynccontextmanager
async def running(static: Path | None = None, **values: object) -> AsyncIterator[Running]:
    """An open gateway with these settings."""
    settings = settings_of(**values)
    entrance = auth.for_settings(settings)
    async with open_gateway(settings, authenticator=entrance, read=lambda: settings_of(**values)) as gateway:
        app = site.build(gateway, settings, tickets=entrance.tickets, static=static)
        table = site.endpoints(gateway, settings, AccessControl(gateway, settings))
        yield Running(gateway, settings, app, openapi.document(table), values)
