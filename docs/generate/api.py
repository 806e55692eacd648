"""The reference of the admin API as a page: `docs/api.md`.

    python -m docs.generate.api > docs/api.md

Everything comes from the table of endpoints; a test compares the committed page with it, and runs every example against
a gateway.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import trio
from pydantic import BaseModel, ConfigDict

from gateway.admin import site
from gateway.admin.access import AccessControl
from gateway.admin.endpoint import Endpoint
from gateway.admin.openapi import TAGS, document, errors_of, parameters_of, path_parameters
from gateway.auth.authenticator import Anonymous
from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway
from gateway.transports import Server

HEAD = """\
# Admin API

Written by `make docs` from the table of endpoints in `gateway/admin`; change it there. The same as an OpenAPI document
is at `GET /api/v1/openapi.json` of every gateway.

The API is on the HTTP port (the setting `http`). Bodies and answers are JSON. An error is `{"error": "one sentence"}`
with one of the statuses that are listed at each endpoint. Unknown parameters and fields are errors, which name them.

There are three ways to use it, see [security](security.md#the-admin-api-and-the-console):

* the header `Authorization: Bearer` with the setting `admin_token`;
* a login by `POST /api/v1/login`: the browser sends its cookie, and the page sends the header `X-CSRF-Token` with every
  change;
* from a program on the gateway's machine, as long as neither `admin_token` nor `admin_groups` is set.

Every change, and every refused change, is a line of the log with the event `admin`: `action`, `target`, `user`, `via`,
`peer`, `outcome`. Of an address without a valid login only a few lines a minute are written.

The gateway sorts and cuts lists: `limit` (100 unless given, at most 1,000), `offset`, `sort` (a key, with `-` in front
the largest first), `q` (a part of the text that is searched). The answer has `total`, how many entries pass the
filters. A page of large messages may end before its `limit`: go on at the `offset` that its `next` names.

The examples are for a shell with these variables:

```sh
GATEWAY=http://127.0.0.1:8000
ADMIN_TOKEN=...           # the setting admin_token
SESSION=...               # the id of a session, as GET /api/v1/sessions has it
MESSAGE=...               # the id of a message, as GET /api/v1/messages has it
SCHEDULED=...             # the id of a scheduled message, as GET /api/v1/scheduled has it
OFFSET=...                # the name of an offset, as GET /api/v1/cursors has it
DURABLE=...               # the name of a durable subscription, as GET /api/v1/destinations has it
PASSCODE=...              # of the user alice
```
"""

_LONGEST_LINE = 110
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
    schemas = document(endpoints)["components"]["schemas"]
    parts = [HEAD]
    for tag in TAGS:
        parts.append(f"\n## {_TITLES[tag]}\n")
        parts += [_endpoint(each) for each in endpoints if each.tag == tag]
    parts.append("\n## Objects\n\nEvery field is present, except where it says `optional`.\n")
    parts += [_object(name, schema) for name, schema in schemas.items() if "properties" in schema]
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
    parts = ["curl -sS" if endpoint.method == "GET" else f"curl -sS -X {endpoint.method}"]
    parts += [f"{name} {value}".strip() for name, value in endpoint.example.items() if name.startswith("-")]
    if endpoint.guarded:
        parts.append('-H "Authorization: Bearer $ADMIN_TOKEN"')
    if variables:
        parts += ["-G", *[f'--data-urlencode "{name}={query[name]}"' for name in variables]]
    if endpoint.body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {_quoted(endpoint.body.model_config)}"]
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
        lines += ["\n| parameter | type | default | meaning |\n", "| --- | --- | --- | --- |\n"]
        lines += [_parameter(each) for each in parameters]
    if endpoint.body is not None:
        lines.append(f"\nBody: {_link(endpoint.body)}.\n")
    errors = ", ".join(f"{each}" for each in errors_of(endpoint))
    lines.append(f"\nAnswer: {endpoint.status}{_answer(endpoint)}. Errors: {errors or 'none'}.")
    if endpoint.action:
        lines.append(f" In the audit log: `{endpoint.action}`.")
    lines.append("\n")
    if endpoint.method != "OPTIONS":
        lines.append(f"\n```sh\n{example_of(endpoint)}\n```\n")
    return "".join(lines)


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    # That a key may have - in front is said at the top.
    kind = " ".join(f"`{each}`" for each in schema.get("enum", ()) if each[0] != "-") or schema["type"]
    if "minimum" in schema:
        kind += f", {schema['minimum']} to {schema['maximum']}"
    default = "needed" if parameter["required"] else f"`{schema['default']}`" if "default" in schema else ""
    return f"| `{parameter['name']}` | {kind} | {default} | {parameter['description']} |\n"


def _answer(endpoint: Endpoint) -> str:
    if endpoint.answer is not None:
        return f" with {_link(endpoint.answer)}"
    return f", `{endpoint.media_type}`" if endpoint.media_type else ""


def _link(model: type[BaseModel]) -> str:
    return f"[{model.__name__}](#{model.__name__.lower()})"


def _object(name: str, schema: dict[str, Any]) -> str:
    lines = [f"\n### {name}\n", f"\n{schema.get('description', '')}\n"]
    lines += ["\n| field | type | meaning |\n", "| --- | --- | --- |\n"]
    for field, facts in schema["properties"].items():
        text = facts.get("description", "")
        optional = "" if field in schema.get("required", ()) else "optional"
        lines.append(f"| `{field}` | {_kind(facts)} | {'; '.join(filter(None, [optional, text]))} |\n")
    return "".join(lines)


def _kind(facts: dict[str, Any]) -> str:
    """A type in words."""
    return " or ".join(dict.fromkeys(_kinds(facts)))


def _kinds(facts: dict[str, Any]) -> Iterator[str]:
    name = facts.get("$ref", "").rpartition("/")[2]
    if name:
        yield "any JSON" if name == "JsonValue" else f"[{name}](#{name.lower()})"
    elif "anyOf" in facts:
        for each in facts["anyOf"]:
            yield from _kinds(each)
    elif "enum" in facts:
        yield from (f"`{each}`" for each in facts["enum"])
    elif "const" in facts:
        yield f"`{json.dumps(facts['const'])}`"
    elif facts.get("type") == "array":
        yield f"list of {_kind(facts['items'])}"
    elif facts.get("type") == "object" and isinstance(facts.get("additionalProperties"), dict):
        yield f"object, each value {_kind(facts['additionalProperties'])}"
    else:
        yield facts.get("type", "anything")


if __name__ == "__main__":
    sys.stdout.write(page())
