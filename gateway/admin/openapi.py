"""OpenAPI document (3.1) of the table of endpoints: `GET /api/v1/openapi.json`."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse, Response

from gateway import __version__
from gateway.admin.access import COOKIE
from gateway.admin.endpoint import BASE, JSON, Api, Endpoint, Error

TAGS = {
    "sessions": "Connected clients, and their subscriptions.",
    "destinations": "Queues, topics and patterns.",
    "messages": "Messages that wait in queues, are scheduled, or are retained by topics.",
    "gateway": "The gateway itself.",
    "pipeline": "The results of the jobs of `gateway pipeline run`.",
    "login": "The console's login, and tickets for pages.",
    "applications": "Publish and listen as a user, without a STOMP client.",
}

ERRORS = {
    400: "The query or the body is wrong.",
    401: "A login is needed, or the login is wrong.",
    403: "This client must not do this.",
    404: "There is no such thing.",
    408: "The body did not come in time.",
    409: "The gateway cannot do this now.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "This address has failed too often.",
    503: "The gateway cannot do this for now: it drains, memory is short, or the store does not answer.",
}
_DESCRIPTION = """\
Access: by `Authorization: Bearer` with the setting `admin_token`; by the console's cookie, and with it the header
`X-CSRF-Token` for every change; or from a program on this machine, as long as neither `admin_token` nor `admin_groups`
is set.
An unknown parameter is an error."""

Document = dict[str, Any]


def document(endpoints: Sequence[Endpoint]) -> Document:
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


class OpenApi(Api):
    def __init__(self, table: Sequence[Endpoint]) -> None:
        self._table = [*table, *self.endpoints()]
        self._document: Document | None = None  # it takes some milliseconds, and few clients ask

    @Endpoint("GET", "/api/v1/openapi.json", "gateway", media_type=JSON)
    async def answer(self) -> Response:
        """This document: all endpoints, and what they take and answer."""
        if self._document is None:
            self._document = document(self._table)
        return JSONResponse(self._document)


def errors_of(endpoint: Endpoint) -> list[int]:
    found = set(endpoint.errors)
    if endpoint.guarded:
        found |= {401, 403, 429}
    if endpoint.path.startswith(BASE) and endpoint.method != "OPTIONS":
        found.add(400)
    if endpoint.body is not None:
        found |= {408, 413, 415}
    return sorted(found)


def path_parameters(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _schemas(endpoints: Iterable[Endpoint]) -> Document:
    # A model is listed once, as a body or as an answer: none is both.
    endpoints = list(endpoints)
    bodies = {each.body for each in endpoints if each.body is not None}
    bodies |= {model for each in endpoints for model in each.takes}
    answers = {each.answer for each in endpoints if each.answer is not None} | {Error}
    listed = sorted(
        [*[(each, "validation") for each in bodies], *[(each, "serialization") for each in answers]],
        key=lambda pair: pair[0].__name__,
    )
    _, found = models_json_schema(listed, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas: Document = found["$defs"]
    return dict(sorted(schemas.items()))


def _ref(model: type[BaseModel]) -> Document:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _operation(endpoint: Endpoint) -> Document:
    failure = {JSON: {"schema": _ref(Error)}}
    found: Document = {
        "operationId": "_".join([endpoint.method.lower(), *re.findall(r"\w+", endpoint.path.removeprefix("/api/v1"))]),
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "security": [{"token": []}, {"cookie": []}, {}] if endpoint.guarded else [],
        "responses": {
            str(endpoint.status): _success(endpoint),
            **{str(each): {"description": ERRORS[each], "content": failure} for each in errors_of(endpoint)},
        },
    }
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in path_parameters(endpoint.path)
    ]
    parameters = [*in_path, *parameters_of(endpoint.query)]
    if parameters:
        found["parameters"] = parameters
    if endpoint.takes:
        shapes = {"oneOf": [_ref(each) for each in endpoint.takes]}
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": shapes}, "text/plain": {"schema": {}}}}
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(endpoint.body)}}}
    return found


def _success(endpoint: Endpoint) -> Document:
    found: Document = {"description": endpoint.summary}
    if endpoint.answer is not None:
        found["content"] = {JSON: {"schema": _ref(endpoint.answer)}}
    elif endpoint.media_type:
        schema = {} if endpoint.media_type == JSON else {"type": "string"}
        found["content"] = {endpoint.media_type: {"schema": schema}}
    return found


def parameters_of(model: type[BaseModel]) -> list[Document]:
    """The parameters of a query, as OpenAPI lists them."""
    schema = model.model_json_schema()
    return [
        {
            "name": name,
            "in": "query",
            "description": facts["description"],
            "required": name in schema.get("required", ()),
            # An empty text is the same as none.
            "schema": {
                key: facts[key]
                for key in ("type", "default", "enum", "minimum", "maximum")
                if key in facts and facts[key] != ""
            },
        }
        for name, facts in schema.get("properties", {}).items()
    ]
