"""Endpoints of the admin API as data, and the error that each may end with.

From one table of endpoints come the routes, the access check, the audit log, the OpenAPI document and `docs/api.md`. A
part of the API is a class (`Api`); an `Endpoint` decorates the method that answers it.  The method's docstring is the
summary that readers of the API see.  It takes those of these arguments that it needs, by name:

    request   Starlette's request
    query     the parameters of the query, as the model of the annotation has them
    body      the body, as the model of the annotation has it
    caller    the client that was let in (`access.Caller`)
    audit     the line of the audit log (`audit.AuditEntry`)
"""

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema
from starlette.responses import JSONResponse, Response

from gateway.config.settings import Settings

BASE = "/api/"
"""Below this path unknown parameters of a query are refused, because they are typing errors.  Scrapers and load
balancers may add parameters to the other paths."""

EVENT_STREAM = "text/event-stream"
JSON = "application/json"

Answering = Callable[..., Awaitable[Response]]

_MARK = "endpoint"

Seconds = Annotated[float, Field(description="since the epoch")]


class ApiModel(BaseModel):
    """An object that has these fields and no others."""

    # Built at their first use: a gateway starts sooner.
    model_config = ConfigDict(extra="forbid", defer_build=True)


class NoQuery(ApiModel):
    """An endpoint without parameters."""


class Error(ApiModel):
    """Why a request was not carried out."""

    error: str = Field(description="one sentence")
    status: Literal["not ready"] | None = Field(None, description="of GET /readyz; elsewhere it is left out")
    node: str | None = Field(None, description="of GET /readyz in a cluster; elsewhere it is left out")
    methods: list[Literal["token", "passcode"]] | None = Field(
        None, description="of GET /api/v1/me: the ways to log in; elsewhere it is left out"
    )


@dataclass(frozen=True)
class FromText:
    """How the text of a query parameter becomes its value: the annotation of a field."""

    parse: Callable[[str], object]  # raises ValueError with the end of the sentence "NAME ..."
    schema: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(self.schema)


def one_of(*values: str) -> FromText:
    """A text out of a list."""

    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text

    return FromText(parse, {"type": "string", "enum": list(values)})


def whole_number(least: int, most: int) -> FromText:
    """A whole number within a range."""

    def parse(text: str) -> int:
        # `int` alone would take the digits of other scripts, and would work long on a megabyte of them.
        if not re.fullmatch("[0-9]{1,15}", text) or not least <= int(text) <= most:
            raise ValueError(f"must be a number from {least} to {most}")
        return int(text)

    return FromText(parse, {"type": "integer", "minimum": least, "maximum": most})


def decimal() -> FromText:
    """A number that may have a fraction."""

    def parse(text: str) -> float:
        # JSON's form without an exponent: `float` alone would take "nan", too.
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,15})?", text):
            raise ValueError("must be a number of at most 12 digits, like 12.5")
        return float(text)

    return FromText(parse, {"type": "number"})


def one_line(most: int) -> FromText:
    """A text without line breaks and other control characters."""

    def parse(text: str) -> str:
        if len(text) > most or not text.isprintable():
            raise ValueError(f"must be one line of at most {most} characters")
        return text

    return FromText(parse, {"type": "string"})


@dataclass(eq=False)
class Endpoint:
    """One method of one path; a decorator of what answers it."""

    method: str
    path: str  # "/api/v1/sessions/{id}", as Starlette and OpenAPI both write it
    tag: str
    answer: type[BaseModel] | None = None
    media_type: str = ""  # of the answer; empty: JSON where there is a model, and no body elsewhere
    accepts: bool = False  # it answers 202, because its work goes on
    errors: tuple[int, ...] = ()  # statuses beside those of access, query and body
    guarded: bool = True  # only for clients that may use the API
    scrapers: bool = False  # the setting `metrics_token` opens it, too
    action: str = ""  # its name in the audit log; empty: it changes nothing, and no line is written
    takes: tuple[type[BaseModel], ...] = ()  # models of a body that it reads itself, beside other media types
    example: Mapping[str, str] = field(default_factory=dict)  # values of path and query by name, and options of curl
    call: Answering = field(default=NotImplemented, kw_only=True)

    def __call__(self, call: Answering) -> Answering:
        setattr(call, _MARK, self)
        return call

    @property
    def status(self) -> int:
        return 202 if self.accepts else 200 if self.answer is not None or self.media_type else 204

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """What `call` takes: name -> type."""
        return {name: kind for name, kind in get_type_hints(self.call).items() if name != "return"}

    @property
    def summary(self) -> str:
        return " ".join((inspect.getdoc(self.call) or "").split())

    @property
    def query(self) -> type[BaseModel]:
        """Model of its parameters; another parameter is refused."""
        found: type[BaseModel] = self.arguments.get("query", NoQuery)
        return found

    @property
    def body(self) -> type[BaseModel] | None:
        """Model of the request's body; None: it has no body."""
        return self.arguments.get("body")


class Api:
    """A part of the API: its methods that answer endpoints, in the order in which they stand."""

    def endpoints(self) -> list[Endpoint]:
        marks = [(name, getattr(method, _MARK, None)) for name, method in vars(type(self)).items()]
        return [replace(mark, call=getattr(self, name)) for name, mark in marks if mark is not None]


class ApiError(Exception):
    """The request is not carried out; `str()` is the one sentence that the client is told.

    `logged` is what the audit log is told instead, where the sentence repeats a text of the client: it might be a
    secret in the wrong place.
    """

    def __init__(
        self, status: int, sentence: str, headers: Mapping[str, str] | None = None, *, logged: str = ""
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = dict(headers or {})
        self.logged = logged or sentence

    @property
    def response(self) -> JSONResponse:
        return error_response(self.status, str(self), self.headers)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers)


def retry_after(settings: Settings) -> dict[str, str]:
    """The header of a refusal while the gateway drains: the seconds until another gateway should be there."""
    return {"retry-after": str(math.ceil(settings.drain_retry / 1000))}
