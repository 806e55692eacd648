"""An endpoint of the admin API, as data.

From one table of these come the routes, the guard, the line of the audit log, the OpenAPI document and `docs/api.md`;
so none of them can know of an endpoint that the others do not.

A module of the API is a class with `endpoints() -> list[Endpoint]`, and `site.build` adds them up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

Kind = Literal["string", "integer", "number", "boolean"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query.

    Args:
        name: as it stands in the address.
        description: one sentence.
        type: of its value, in the words of JSON schema.
        default: what holds when it is left out; None: nothing does.
        required: it must not be left out.
        enum: the only values there are; empty: any.
        least: of a number.
        most: of a number.
    """

    name: str
    description: str
    type: Kind = "string"
    default: str | float | bool | None = None
    required: bool = False
    enum: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Endpoint:
    """One method of one path.

    Args:
        method: "GET", "POST", "DELETE" or "OPTIONS".
        path: "/api/v1/sessions/{id}", as Starlette and OpenAPI both write it.
        call: answers the request.
        summary: one line.
        tag: "sessions", "destinations", "messages", "gateway", "pipeline" or "login".
        answer: model of the answer; None: 204 has no body, or `media_type` says what it is.
        query: its parameters; another one is refused.
        body: model of the request's body; None: it has none.
        status: of the answer when all went well.
        media_type: of that answer.
        errors: statuses of the errors it can end with, beside those of guard, query and body.
        guarded: only for who may use the API.
        scrapers: whoever shows `metrics_token` may, too.
        action: its name in the audit log; empty: it changes nothing, and no line is written.
        example: what makes an example of it for the documentation: values of the path and the query by name, and what
            curl is told by its options.
    """

    method: str
    path: str
    call: Callable[[Request], Awaitable[Response]]
    summary: str
    tag: str
    answer: type[BaseModel] | None
    query: tuple[Parameter, ...] = ()
    body: type[BaseModel] | None = None
    status: int = 200
    media_type: str = "application/json"
    errors: tuple[int, ...] = ()
    guarded: bool = True
    scrapers: bool = False
    action: str = ""
    example: Mapping[str, str] = field(default_factory=dict)
