"""The OpenAPI document (3.1) of the table of endpoints: `GET /api/v1/openapi.json`.

It says of each endpoint what the table says, and for every error that it can end with, that there is one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway import __version__
from gateway.admin.endpoint import Endpoint, Parameter
from gateway.admin.models import Error
from gateway.admin.serving import BASE
from gateway.admin.visits import COOKIE

TAGS = {
    "sessions": "Who is connected, and who subscribes to what.",
    "destinations": "Queues, topics and patterns.",
    "messages": "What waits in queues, what comes later, and what topics retain.",
    "gateway": "The gateway itself.",
    "pipeline": "What the jobs of `gateway pipeline run` find.",
    "login": "The console's login, and tickets for pages.",
}

_ERRORS = {
    400: "The query or the body is wrong.",
    401: "One has to log in, or what was shown is wrong.",
    403: "This is not for who asks, or not from there.",
    404: "There is no such thing.",
    408: "The body does not come.",
    409: "Not now.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "This address has failed too often.",
    503: "The store, or memory, does not take it for now.",
}
_DESCRIPTION = """\
Who may: `Authorization: Bearer` with the setting `admin_token`; the console's cookie, and with it the header
`X-CSRF-Token` for every change; or a program on this machine, as long as neither `admin_token` nor `admin_groups` is
set.
A parameter that an endpoint does not have is an error."""

Document = dict[str, Any]


def document(endpoints: Sequence[Endpoint]) -> Document:
    """The document of these endpoints."""
    schemas = _schemas(endpoints)
    paths: dict[str, Document] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "stomp-gateway", "version": __version__, "description": _DESCRIPTION},
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


class Reference:
    """The endpoint that tells of all endpoints."""

    def __init__(self, table: Sequence[Endpoint]) -> None:
        self._table = [*table, *self.endpoints()]
        self._document: Document | None = None  # it takes some milliseconds, and few ask

    def endpoints(self) -> list[Endpoint]:
        """Its one endpoint."""
        summary = "This document: what there is to ask, and what is answered."
        return [Endpoint("GET", f"{BASE}v1/openapi.json", self.answer, summary, "gateway", None)]

    async def answer(self, request: Request) -> Response:
        """The document."""
        if self._document is None:
            self._document = document(self._table)
        return JSONResponse(self._document)


def errors_of(endpoint: Endpoint) -> list[int]:
    """All errors that it can end with."""
    found = set(endpoint.errors)
    if endpoint.guarded:
        found |= {401, 403, 429}
    if endpoint.path.startswith(BASE) and endpoint.method != "OPTIONS":
        found.add(400)
    if endpoint.body is not None:
        found |= {408, 413, 415}
    return sorted(found)


def path_parameters(path: str) -> list[str]:
    """The names in a path."""
    return re.findall(r"{(\w+)}", path)


def _schemas(endpoints: Iterable[Endpoint]) -> Document:
    # A model stands here once, whether it is asked or answered: none is both.
    asked = {each.body for each in endpoints if each.body is not None}
    answered = {each.answer for each in endpoints if each.answer is not None} | {Error}
    listed = sorted(
        [*[(each, "validation") for each in asked], *[(each, "serialization") for each in answered]], key=_name
    )
    _, found = models_json_schema(listed, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas: Document = found["$defs"]
    return dict(sorted(schemas.items()))


def _name(pair: tuple[type[BaseModel], str]) -> str:
    return pair[0].__name__


def _ref(model: type[BaseModel]) -> Document:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _operation(endpoint: Endpoint) -> Document:
    found: Document = {
        "operationId": "_".join([endpoint.method.lower(), *re.findall(r"\w+", endpoint.path.removeprefix("/api/v1"))]),
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "security": [{"token": []}, {"cookie": []}, {}] if endpoint.guarded else [],
        "responses": {str(endpoint.status): _success(endpoint), **_failures(endpoint)},
    }
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in path_parameters(endpoint.path)
    ]
    parameters = [*in_path, *map(_parameter, endpoint.query)]
    if parameters:
        found["parameters"] = parameters
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(endpoint.body)}}}
    return found


def _success(endpoint: Endpoint) -> Document:
    found: Document = {"description": endpoint.summary}
    if endpoint.answer is not None:
        found["content"] = {endpoint.media_type: {"schema": _ref(endpoint.answer)}}
    elif endpoint.status != 204:
        schema = {} if endpoint.media_type == "application/json" else {"type": "string"}
        found["content"] = {endpoint.media_type: {"schema": schema}}
    return found


def _failures(endpoint: Endpoint) -> Document:
    content = {"application/json": {"schema": _ref(Error)}}
    return {str(status): {"description": _ERRORS[status], "content": content} for status in errors_of(endpoint)}


def _parameter(parameter: Parameter) -> Document:
    schema: Document = {"type": parameter.type}
    if parameter.default is not None:
        schema["default"] = parameter.default
    if parameter.enum:
        schema["enum"] = list(parameter.enum)
    if parameter.least is not None:
        schema["minimum"] = parameter.least
    if parameter.most is not None:
        schema["maximum"] = parameter.most
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "required": parameter.required,
        "schema": schema,
    }
