"""The reference of the admin API as a page: `docs/api.md`.

    python -m docs.generate.api > docs/api.md

Everything comes from the table of endpoints; a test compares the committed page with it, and runs every example against
a gateway.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import trio
from pydantic import BaseModel, ConfigDict

from gateway.admin import site
from gateway.admin.access import AccessControl
from gateway.admin.endpoint import ApiModel, Endpoint
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
event [`admin`](logs.md#gatewayaudit).

## Errors

An error is `{"error": "one sentence"}`. An unknown parameter or field is an error, too.

| status | meaning |
| --- | --- |
%s
Any endpoint that needs a login may answer 400, 401, 403 and 429, one with a body 408, 413 and 415. Each names only its
other errors.

## Lists

`limit` is at most 1,000 (default: 100), `offset` skips entries. `sort` is a key; with `-` before it the largest comes
first. `q` is a text to search for, in upper or lower case. In the answer, `total` counts all entries that match.

## Examples

The examples are for a shell with this function, and with variables: `GATEWAY` (`http://127.0.0.1:8000`),
`ADMIN_TOKEN`, ids and names out of the lists (`SESSION`, `MESSAGE`, `SCHEDULED`, `OFFSET`, `DURABLE`), and alice's
`PASSCODE`.

```sh
%s
```
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
}


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
    objects = {
        name: schema for name, schema in document(endpoints)["components"]["schemas"].items() if "properties" in schema
    }
    parts = [_HEAD % ("".join([f"| {status} | {text} |\n" for status, text in ERRORS.items()]), SHELL)]
    for tag in TAGS:
        parts.append(f"\n## {_TITLES[tag]}\n")
        parts += [_endpoint(each) for each in endpoints if each.tag == tag]
    parts.append("\n## Objects\n\nIn TypeScript. Times are seconds since the epoch, sizes are bytes.\n")
    parts += [_object(model, objects) for model in _models(objects)]
    return "".join(parts)


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


def _endpoint(endpoint: Endpoint) -> str:
    lines = [f"\n### `{endpoint.method} {endpoint.path}`\n", f"\n{endpoint.summary}\n"]
    parameters = parameters_of(endpoint.query)
    if parameters:
        lines += ["\n", *[_parameter(each) for each in parameters if each["name"] not in ("limit", "offset")]]
    body = f"{_link(endpoint.body.__name__)} → " if endpoint.body is not None else "→ "
    general = {*(_OF_ALL if endpoint.guarded else ()), *(_OF_BODIES if endpoint.body is not None else ())}
    further = [f"{each}" for each in errors_of(endpoint) if each not in general]
    lines.append(
        f"\n{'; '.join([f'{body}{endpoint.status}{_answer(endpoint)}', *filter(None, [', '.join(further)])])}."
    )
    if endpoint.action:
        lines.append(f" Logged as `{endpoint.action}`.")
    lines.append("\n")
    if endpoint.method != "OPTIONS":
        lines.append(f"\n```sh\n{example_of(endpoint)}\n```\n")
    return "".join(lines)


def _parameter(parameter: dict[str, Any]) -> str:
    schema, name = parameter["schema"], parameter["name"]
    # That a key may have - in front is said at the top.
    values = ", ".join(f"`{each}`" for each in schema.get("enum", ()) if each[0] != "-")
    text = values if name == "sort" else "; ".join(filter(None, [parameter["description"], values]))
    return f"* `{name}`{' (needed)' if parameter['required'] else ''}: {text}\n"


def _answer(endpoint: Endpoint) -> str:
    model = endpoint.answer
    if model is None:
        return f" `{endpoint.media_type}`" if endpoint.media_type else ""
    if not _is_small(model):
        return f" {_link(model.__name__)}"
    ((name, facts),) = [
        each for each in model.model_json_schema()["properties"].items() if each[0] not in _known(model)
    ]
    if issubclass(model, ListPage):
        return f" [page](#lists) of `{name}`: {_link(_kind(facts).removesuffix('[]'))}"
    return f" `{{{name}: {_kind(facts)}}}`"


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _is_small(model: type[BaseModel]) -> bool:
    """It has one field, or is a list and has no other: endpoints show it themselves."""
    return len(model.model_fields.keys() - (_known(model) if issubclass(model, ListPage) else set())) == 1


def _known(model: type[BaseModel]) -> set[str]:
    """The fields that it has from others."""
    return {name for base in _bases(model) for name in base.model_fields}


def _models(objects: Mapping[str, Any]) -> list[type[BaseModel]]:
    """The objects of the document, and what they have in common, by their names."""
    found: dict[str, type[BaseModel]] = {}
    new = [*ApiModel.__subclasses__(), *BaseModel.__subclasses__()]
    while new:
        model = new.pop()
        new += model.__subclasses__()
        # A page of a list is shown by its endpoint.
        if model.__name__ in objects and model.__module__.startswith("gateway.admin."):
            found |= {each.__name__: each for each in (model, *_bases(model)) if not _is_small(each)}
    return [found[name] for name in sorted(found)]


def _bases(model: type[BaseModel]) -> list[type[BaseModel]]:
    return [each for each in model.__bases__ if issubclass(each, ApiModel) and len(each.model_fields) > 1]


def _object(model: type[BaseModel], objects: Mapping[str, Any]) -> str:
    schema = objects.get(model.__name__) or model.model_json_schema(ref_template="/{model}")
    bases = _bases(model)
    known = _known(model)
    of = f" extends {', '.join([base.__name__ for base in bases])}" if bases else ""
    lines = [f"\n### {model.__name__}\n", f"\n{schema.get('description', '')}\n", "\n```ts\n"]
    lines.append(f"interface {model.__name__}{of} {{\n")
    for name, facts in schema["properties"].items():
        if name not in known:
            lines += _field(name, facts, name in schema.get("required", ()))
    return "".join([*lines, "}\n```\n"])


def _field(name: str, facts: dict[str, Any], required: bool) -> Iterator[str]:
    line = f"  {name}{'' if required else '?'}: {_kind(facts)}"
    text = facts.get("description", "")
    if text == "since the epoch":
        text = ""  # as all times are
    if len(line) + len(text) > _LONGEST_LINE:
        yield from (f"  // {part}\n" for part in textwrap.wrap(text, _LONGEST_LINE - 5))
        yield f"{line}\n"
    else:
        yield f"{line}  // {text}\n" if text else f"{line}\n"


def _kind(facts: dict[str, Any]) -> str:
    """A type, as TypeScript has it."""
    return " | ".join(dict.fromkeys(_kinds(facts)))


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
        yield f"Record<string, {_kind(facts['additionalProperties'])}>"
    elif facts.get("type") == "integer":
        yield "number"
    else:
        yield facts.get("type", "unknown")


if __name__ == "__main__":
    sys.stdout.write(page())
