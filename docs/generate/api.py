"""The reference of the admin API as a page: `docs/api.md`.

    python -m docs.generate.api > docs/api.md

Everything comes from the table of endpoints; a test compares the committed page with it, and runs every example against
a gateway.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlencode

import trio
from pydantic import BaseModel, ConfigDict

from gateway.admin import site
from gateway.admin.access import AccessControl
from gateway.admin.endpoint import ApiModel, Endpoint, Error
from gateway.admin.listing import ListPage
from gateway.admin.openapi import ERRORS, TAGS, document, errors_of, parameters_of, path_parameters
from gateway.auth.authenticator import Anonymous
from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway
from gateway.transports import Server

SHELL = 'api() { curl -sS -H "Authorization: Bearer $ADMIN_TOKEN" "$@"; }'

_HEAD = """\
# Admin API

Written by `make docs` from the endpoints in `gateway/admin`. Each gateway has the same as an OpenAPI document, at
`GET /api/v1/openapi.json`.

The API is on the HTTP port (the setting `http`). Bodies and answers are JSON.

## Access

* `Authorization: Bearer` with the setting `admin_token`;
* or a login by `POST /api/v1/login`, which sets a cookie; every change also needs the header `X-CSRF-Token`;
* or, while neither `admin_token` nor `admin_groups` is set, any request from the gateway's own machine.

[Security](security.md#the-admin-api-and-the-console) has the details. The log has each change, done or refused, as the
event [`admin`](logs.md#gatewayaudit) with the action that stands here behind "Logged".

## Answers

Behind each arrow stands the answer, its status if that is not 200, and the errors. Any endpoint that needs a login may
also answer 400, 401, 403 and 429, and one with a body 408, 413 and 415.

An error is `{error: string}`, one sentence; `GET /api/v1/me` adds `methods`, the ways to log in: `token`, `passcode`.
An unknown parameter or field is an error, too.

%s
Fields have the types of TypeScript, those of one type stand in a line; `?` may be left out. Times are seconds since the
epoch. `octets` are bytes, and `size` is that of a body. A destination is named as a client writes it, or as a list
shows it, and another `name` or `topic` as the list. A list within an answer has the first 1,000.

## Lists

`limit` is at most 1,000 (default: 100), `offset` skips entries. `sort` is a key; with `-` before it the largest comes
first. `q` is a text to search for in the fields behind it, in upper or lower case. The answer has the entries, `limit`,
`offset`, and `total`: the number of all entries that match.

## Examples

They are for a shell with this function, and with variables: `GATEWAY` (`http://127.0.0.1:8000`), `ADMIN_TOKEN`, ids
and names out of the lists (`SESSION`, `MESSAGE`, `SCHEDULED`, `OFFSET`, `DURABLE`), and alice's `PASSCODE`. A GET or
DELETE without an example is like one of these.

    %s
    api "$GATEWAY/api/v1/sessions?limit=10&sort=-connected_at"
    api -X DELETE "$GATEWAY/api/v1/sessions/$SESSION?reason=maintenance"
"""

_LONGEST_LINE = 110
# Statuses of every endpoint that needs a login, and of every one that has a body.
_OF_ALL = (400, 401, 403, 429)
_OF_BODIES = (408, 413, 415)
# What double quotes of a shell do not keep as it is, but for `$`, which is to be filled in.
_IN_QUOTES = str.maketrans({'"': '\\"', "\\": "\\\\", "`": "\\`"})

_TITLES = {
    "sessions": "Sessions and subscriptions",
    "destinations": "Destinations",
    "messages": "Messages",
    "gateway": "The gateway",
    "pipeline": "Pipeline",
    "login": "Logging in",
    "applications": "Applications",
}
# What descriptions say again that stands at the top of the page.
_SAID = re.compile(
    r"(,? ?in seconds|,) since the epoch|^since the epoch|^bytes( of the body)?$|^the first 1,000( of these)?$|"
    r"^(the queue, )?as (a|the) client (or a list names|writes it, or as a list shows) it|, in upper or lower case|"
    r"^as GET \S+ has it$|^(the )?user$|^session$|^only this kind$|^a part of "
)


def table() -> list[Endpoint]:
    """All endpoints, over a gateway that is not open."""

    async def build() -> list[Endpoint]:
        settings = Settings.model_construct()  # the defaults, without those of the environment
        gateway = Gateway(settings, Server(Anonymous()), {})
        return site.endpoints(gateway, settings, AccessControl(gateway, settings))

    return trio.run(build)


def page() -> str:
    """The page, in Markdown."""
    endpoints = table()
    objects = Objects(endpoints)
    parts = [_HEAD % ("".join([f"* {status}: {text}\n" for status, text in ERRORS.items()]), SHELL)]
    for tag in TAGS:
        parts.append(f"## {_TITLES[tag]}\n")
        parts += [part for each in endpoints if each.tag == tag for part in _endpoint(each, objects)]
    parts.append("## Objects\n")
    for name in sorted(objects.models.keys() - objects.inline - objects.nested):
        text = objects.text_of(name)
        parts += [f"### {name}\n", *([f"{text}\n"] if name not in objects.shown else []), objects.fields_of(name)]
    return "\n".join(parts)


def example_of(endpoint: Endpoint) -> str:
    """A command of a shell that asks it."""
    path = endpoint.path
    for name in path_parameters(path):
        path = path.replace(f"{{{name}}}", endpoint.example[name])
    query = {name: endpoint.example[name] for name in endpoint.query.model_fields if name in endpoint.example}
    # What a variable holds curl must write into the address, for it may have any characters.
    variables = [name for name, value in query.items() if value.startswith("$")]
    fixed = {name: value for name, value in query.items() if name not in variables}
    if fixed:
        path += f"?{urlencode(fixed, safe='/')}"
    parts = ["api" if endpoint.guarded else "curl -sS"]
    # `--json` is a POST.
    if endpoint.method != "GET" and endpoint.body is None:
        parts.append(f"-X {endpoint.method}")
    parts += [f"{name} {value}".strip() for name, value in endpoint.example.items() if name.startswith("-")]
    if variables:
        parts += ["-G", *[f'--data-urlencode "{name}={query[name]}"' for name in variables]]
    if endpoint.body is not None:
        parts.append(f"--json {_quoted(endpoint.body.model_config)}")
    parts.append(f'"$GATEWAY{path}"')
    line = " ".join(parts)
    return line if len(line) <= _LONGEST_LINE else " \\\n    ".join(parts)


def _quoted(config: ConfigDict) -> str:
    """The example of a body in double quotes, so that the shell fills its variables in."""
    extra = config["json_schema_extra"]
    assert isinstance(extra, dict)  # every body has an example
    text = json.dumps(extra["example"])
    return f'"{text.translate(_IN_QUOTES)}"'


class Objects:
    """The objects of the document, and what they have in common, by their names.

    Attributes:
        shown: how many endpoints take or answer each; it is what they say.
        inline: those that one endpoint alone takes or answers, which shows them itself.
        nested: those that one field of another alone has, which shows them itself.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        endpoints = list(endpoints)
        self._schemas = document(endpoints)["components"]["schemas"]
        self.models: dict[str, type[BaseModel]] = {}
        self.bodies = {each.body for each in endpoints} | {model for each in endpoints for model in each.takes}
        new = [*ApiModel.__subclasses__(), *BaseModel.__subclasses__()]
        while new:
            model = new.pop()
            new += model.__subclasses__()
            # An error is shown at the top, what all lists have too, and a page of a list by its endpoint.
            if model.__name__ in self._schemas and model.__module__.startswith("gateway.admin.") and model is not Error:
                found = (each for each in (model, *_bases(model)) if each is not ListPage)
                self.models |= {each.__name__: each for each in found if each in self.bodies or not _is_small(each)}
        below = Counter(name for each in self.models.values() for name in self._below(each))
        self.shown = Counter(
            name for each in endpoints for model in (each.body, each.answer) for name in self._shown(model)
        )
        self.inline = {name for name in self.models if (below[name], self.shown[name]) == (0, 1)}
        self.nested = {name for name in self.models if (below[name], self.shown[name]) == (1, 0)}

    def _below(self, model: type[BaseModel]) -> Iterator[str]:
        yield from (base.__name__ for base in _bases(model))
        for facts in self.own(model).values():
            yield from re.findall(r"\w+", _kind(facts))

    def _shown(self, model: type[BaseModel] | None) -> Iterator[str]:
        if model is not None:
            names = [_kind(facts).removesuffix("[]") for facts in self.own(model).values()]
            yield from names if _is_small(model) and model not in self.bodies else [model.__name__]

    def schema_of(self, model: type[BaseModel]) -> dict[str, Any]:
        found: dict[str, Any] = self._schemas.get(model.__name__) or model.model_json_schema(ref_template="/{model}")
        return found

    def own(self, model: type[BaseModel]) -> dict[str, dict[str, Any]]:
        """Name -> facts of the fields that it does not have from others."""
        known = {name for base in _bases(model) for name in base.model_fields}
        return {name: facts for name, facts in self.schema_of(model).get("properties", {}).items() if name not in known}

    def text_of(self, name: str) -> str:
        return " ".join(self.schema_of(self.models[name]).get("description", "").split())

    def _nested_in(self, kind: str) -> list[str]:
        return [name for name in re.findall(r"^\w+", kind) if name in self.nested]

    def fields_of(self, name: str) -> str:
        """The lines of its fields, those of one type in one line where nothing is to be said of them."""
        required = self.schema_of(self.models[name]).get("required", ())
        fields: list[tuple[list[str], str]] = []  # names, and what follows them
        for field, facts in self.own(self.models[name]).items():
            kind, text = _kind(facts), _said_there(facts)
            for each in self._nested_in(kind):
                first, _, more = self.text_of(each).rstrip(".").partition(". ")
                text = ". ".join(filter(None, [text or first[0].lower() + first[1:], more]))
            shown = f"{field}{'' if field in required else '?'}"
            if not text and fields and fields[-1][1] == kind:
                fields[-1][0].append(shown)
            else:
                fields.append(([shown], f"{kind} ({text})" if text else kind))
        lines: list[str] = []
        for names, rest in fields:
            lines += textwrap.wrap(f"{', '.join(names)}: {rest}", _LONGEST_LINE, subsequent_indent="    ")
            lines += [f"  {line[4:]}" for name in self._nested_in(rest) for line in self.fields_of(name).splitlines()]
        return "".join([f"    {line}\n" for line in lines])


def _endpoint(endpoint: Endpoint, objects: Objects) -> Iterator[str]:
    """The paragraphs and blocks of an endpoint."""
    yield f"### `{endpoint.method} {endpoint.path}`\n"
    yield f"{endpoint.summary}{f' Logged: `{endpoint.action}`.' if endpoint.action else ''}\n"
    kind, entry = _kind_of(endpoint, objects)
    fields = [*objects.own(objects.models[entry])] if entry in objects.models else []
    shown = [each for each in parameters_of(endpoint.query) if each["name"] not in ("limit", "offset")]
    example = example_of(endpoint)
    # Those of an address alone are said at the top.  Behind a list, a block would be a part of it.
    if endpoint.method != "OPTIONS" and not re.fullmatch(r'(?:api|curl -sS)(?: -X DELETE)? "[^"]+"', example):
        yield textwrap.indent(f"{example}\n", "    ")
    if shown:
        yield "".join([_parameter(each, fields) for each in shown])
    if endpoint.takes:
        shapes = [_link(each.__name__) for each in endpoint.takes if each.__name__ not in objects.nested]
        yield f"Body: {', '.join(shapes)}, or one entry of its list; with a `destination`, the message as it is.\n"
    if endpoint.body is not None:
        yield f"Body:{_more(endpoint.body.__name__, objects)}\n"
        yield objects.fields_of(endpoint.body.__name__)
    general = {*(_OF_ALL if endpoint.guarded else ()), *(_OF_BODIES if endpoint.body is not None else ())}
    errors = ", ".join([f"{each}" for each in errors_of(endpoint) if each not in general])
    answer = f"→ {'; '.join(filter(None, [kind, errors]))}"
    if entry in objects.inline and objects.own(objects.models[entry]):
        yield f"{answer}:{_more(entry, objects)}\n"
        yield objects.fields_of(entry)
    else:
        yield f"{answer}.\n"


def _kind_of(endpoint: Endpoint, objects: Objects) -> tuple[str, str]:
    """The answer in words, and the name of the object that it is, or has a list of."""
    model, status = endpoint.answer, f"{endpoint.status}"
    if model is None:
        return f"`{endpoint.media_type}`" if endpoint.media_type else status, ""
    if _is_small(model):
        ((name, facts),) = objects.own(model).items()
        entry = _kind(facts).removesuffix("[]")
        if issubclass(model, ListPage):
            return f"[page](#lists) of `{name}`{'' if entry in objects.inline else f': {_link(entry)}'}", entry
        return f"`{{{name}: {_kind(facts)}}}`", entry
    name = model.__name__
    if name not in objects.inline:
        return _link(name), name
    bases = [_link(base.__name__) if base is not ListPage else "[page](#lists)" for base in _bases(model)]
    return f"{' and '.join([*bases, *(['these'] if bases and objects.own(model) else [])]) or status}", name


def _more(name: str, objects: Objects) -> str:
    """What its description says behind its first sentence, which says the same as that of the endpoint."""
    text = objects.text_of(name).partition(". ")[2]
    return f" {text}" if text else ""


def _parameter(parameter: dict[str, Any], fields: list[str]) -> str:
    schema, name = parameter["schema"], parameter["name"]
    # That a key may have - in front is said at the top.
    choices = [each for each in schema.get("enum", ()) if each[0] != "-"]
    others = [each for each in fields if each not in choices]
    text = ", ".join(f"`{each}`" for each in choices)
    if name != "sort":
        text = "; ".join(filter(None, [_said_there(parameter), text]))
    elif len(others) < len(choices):
        text = f"any field but {', '.join(f'`{each}`' for each in others)}"
    return f"* `{name}`{' (needed)' if parameter['required'] else ''}{': ' if text else ''}{text}\n"


def _said_there(facts: dict[str, Any]) -> str:
    """A description, without what the page says at its top."""
    return _SAID.sub("", facts.get("description", ""))


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _is_small(model: type[BaseModel]) -> bool:
    """It has one field, or is a list and has no other: endpoints show it themselves."""
    known = ListPage.model_fields if issubclass(model, ListPage) else {}
    return len(model.model_fields.keys() - known) == 1


def _bases(model: type[BaseModel]) -> list[type[BaseModel]]:
    return [each for each in model.__bases__ if issubclass(each, ApiModel) and len(each.model_fields) > 1]


def _kind(facts: dict[str, Any]) -> str:
    """A type, as TypeScript has it."""
    return "|".join(dict.fromkeys(_kinds(facts)))


def _kinds(facts: dict[str, Any]) -> Iterator[str]:
    name = facts.get("$ref", "").rpartition("/")[2]
    if name:
        yield "unknown" if name == "JsonValue" else name
    elif "anyOf" in facts:
        for each in facts["anyOf"]:
            yield from _kinds(each)
    elif "enum" in facts:
        yield from (json.dumps(each) for each in facts["enum"])
    elif "const" in facts:
        yield json.dumps(facts["const"])
    elif facts.get("type") == "array":
        kind = _kind(facts["items"])
        yield f"({kind})[]" if "|" in kind else f"{kind}[]"
    elif facts.get("type") == "object" and isinstance(facts.get("additionalProperties"), dict):
        yield f"Record<string,{_kind(facts['additionalProperties'])}>"
    elif facts.get("type") == "integer":
        yield "number"
    else:
        yield facts.get("type", "unknown")


if __name__ == "__main__":
    sys.stdout.write(page())
