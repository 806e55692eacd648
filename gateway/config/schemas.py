"""Schemas: the JSON Schema files that policies name, and what they refuse.

    [[policy]]
    match = "/queue/orders"
    schema = "order.json"            # relative to the folder of the settings file

A file is read once, at the start.  Its draft is that of its `$schema`, else 2020-12.  A `$ref` may name a file in the
same folder, or below it; nothing is fetched from a network.

A check costs some 3 us for a small body, nearly all of it in Rust.  It runs in the thread that serves all clients, so
a body has a limit here: one of 256 KiB takes some 5 ms.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import jsonschema_rs

MAX_BODY = 256 * 1024  # bytes of a body that is checked
_MAX_FILE = 4 * 1024 * 1024  # bytes of a file
_LONGEST = 300  # characters of a reason


class SchemaError(ValueError):
    """A schema cannot be used; `str()` is the end of a sentence about its file."""


class JsonSchema:
    """A JSON Schema out of a file: `gateway.broker.model.policy.BodySchema`.

    Attributes:
        path: of the file.
        documents: what is in it, and in the files that it refers to, by their `file:` addresses; its own is the first.

    Raises SchemaError: the file cannot be read, or is no schema.
    """

    __slots__ = ("_validator", "documents", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.documents: dict[str, Any] = {path.resolve().as_uri(): _read(path)}
        self._validator = _validator_of(path.resolve().parent, self.documents)

    def __str__(self) -> str:
        return str(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSchema) and (self.path, self.documents) == (other.path, other.documents)

    def __hash__(self) -> int:
        return hash(self.path)

    def refusal(self, body: bytes) -> str:
        """See `BodySchema`: a place in the body is a JSON Pointer (RFC 6901)."""
        if len(body) > MAX_BODY:
            return f"it has {len(body):,} bytes, and is checked up to {MAX_BODY:,}"
        try:
            value = json.loads(body.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return "it is not JSON in UTF-8"
        if self._validator.is_valid(value):
            return ""
        # The first one alone: a large body may have a hundred thousand.
        (first,) = islice(self._validator.iter_errors(value), 1)
        place = "".join(f"/{str(each).replace('~', '~0').replace('/', '~1')}" for each in first.instance_path)
        return " ".join(f"{place or 'the body'}: {first.message}"[:_LONGEST].split())


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SchemaError(f"cannot be read: {error.strerror}") from None
    if len(data) > _MAX_FILE:
        raise SchemaError(f"has {len(data):,} bytes, and may have {_MAX_FILE:,}")
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise SchemaError("is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"is not JSON: line {error.lineno} column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"is not JSON: {error}") from None
    if not isinstance(document, (dict, bool)):
        raise SchemaError("is no JSON Schema: it must be an object")
    return document


def _validator_of(folder: Path, documents: dict[str, Any]) -> jsonschema_rs.Validator:
    """A validator of the one document; those of the folder that it refers to are added."""
    import jsonschema_rs  # 10 ms that only gateways with schemas need

    def retrieve(uri: str) -> Any:
        parts = urlsplit(uri)
        other = Path(unquote(parts.path)).resolve()
        if parts.scheme != "file" or not other.is_relative_to(folder):
            raise SchemaError(f"{uri} is not in {folder}, and only files there are read")
        try:
            documents[uri] = _read(other)
        except SchemaError as error:
            raise SchemaError(f"{other} {error}") from None
        return documents[uri]

    ((address, document),) = documents.items()
    try:
        # Of a value in the body only its place is told: logs and other clients must not learn more.
        return jsonschema_rs.validator_for(
            document, mask="the value", base_uri=address, retriever=retrieve, validate_formats=True
        )
    except jsonschema_rs.ValidationError as error:
        place = "".join(f"/{each}" for each in error.instance_path)
        reason = error.message.rpartition("SchemaError: ")[2]  # of `retrieve`
        raise SchemaError(f"is no JSON Schema: {place}{': ' if place else ''}{reason}") from None
