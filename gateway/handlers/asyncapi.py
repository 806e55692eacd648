"""AsyncAPI document (3.0) of what clients may send and hear: of the functions, and of the policies with a `schema`.

    functions    `/app/...`: the body as its function is annotated, and the reply
    policies     the destinations of a pattern; a wildcard is a parameter, `{word1}` or `{rest}`

The gateway is the application of the document: it receives what clients SEND, and sends what subscribers get.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urljoin

from pydantic import PydanticInvalidForJsonSchema, TypeAdapter

from gateway import __version__
from gateway.broker.model.patterns import ONE, WILDCARDS, split

from .registry import SUBSCRIBE, Function

Document = dict[str, Any]

_SCHEMAS = "#/components/schemas/"
_NOT_SCHEMAS = frozenset({"const", "default", "enum", "examples"})  # a `$ref` in them is a value
# Their keys are names of the application's.
_BY_NAME = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


class DestinationSchema(NamedTuple):
    """The schema of the messages to the destinations of a policy."""

    patterns: Sequence[str]
    documents: Mapping[str, Any]  # by their addresses; the first is the schema, the others are referred to


def document(
    functions: Iterable[Function], schemas: Iterable[DestinationSchema], servers: Mapping[str, Document]
) -> Document:
    """The whole document.  `servers`: by their names, as AsyncAPI describes them."""
    made = _Maker()
    for function in functions:
        made.add_function(function)
    for schema in schemas:
        made.add_schema(schema)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "stomp-gateway",
            "version": __version__,
            "description": "Functions and schemas of this gateway.",
        },
        "defaultContentType": "application/json",
        "servers": dict(servers),
        "channels": made.channels,
        "operations": made.operations,
        "components": {"schemas": made.schemas},
    }


class _Maker:
    def __init__(self) -> None:
        self.channels: dict[str, Document] = {}
        self.operations: dict[str, Document] = {}
        self.schemas: dict[str, Any] = {}
        self._files: dict[str, str] = {}  # address -> its key in `schemas`

    def add_function(self, function: Function) -> None:
        template, arguments = function.template, function.arguments
        name = f"{function.kind}-{_identifier(template.text)}"
        channel = self._channel(name, template.text, template.fields)
        answer = self._message(f"{name}-reply", arguments.answer_type)
        if function.kind == SUBSCRIBE:
            self._say(channel, name, "send", "answer", answer, function.call.__doc__)
            return
        body = self._message(f"{name}-body", arguments.body_type)
        self._say(channel, name, "receive", "request", body, function.call.__doc__)
        if arguments.answer_type is not None:
            self.channels[f"{name}-reply"] = {"address": None, "messages": {"reply": answer}}
            self.operations[name]["reply"] = {
                "address": {"location": "$message.header#/reply-to"},
                **_at(f"{name}-reply", "reply"),
            }

    def add_schema(self, schema: DestinationSchema) -> None:
        new = [address for address in schema.documents if address not in self._files]
        for address in new:
            self._files[address] = self._free(f"file-{_identifier(address.rpartition('/')[2])}")
        for address in new:
            content = schema.documents[address]
            base = _base(content, address)
            # By its `$id`, too, which its own references may name.
            names = {**self._files, base: self._files[address]}
            self.schemas[self._files[address]] = _moved(content, base, names)
        message = {"payload": {"$ref": f"{_SCHEMAS}{self._files[next(iter(schema.documents))]}"}}
        for pattern in schema.patterns:
            address, parameters = _address(pattern)
            name = f"policy-{_identifier(pattern)}"
            channel = self._channel(name, address, parameters)
            self._say(channel, f"{name}-in", "receive", "message", message, None)
            self._say(channel, f"{name}-out", "send", "message", message, None)

    def _free(self, name: str) -> str:
        """A key that is free: two folders may have files of one name."""
        taken = {*self._files.values()}
        return next(each for each in (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3))) if each not in taken)

    def _channel(self, name: str, address: str, parameters: Sequence[str]) -> str:
        self.channels[name] = {"address": address, "messages": {}}
        if parameters:
            self.channels[name]["parameters"] = {each: {} for each in parameters}
        return name

    def _say(
        self, channel: str, operation: str, action: str, name: str, message: Document, summary: str | None
    ) -> None:
        self.channels[channel]["messages"][name] = message
        self.operations[operation] = {"action": action, **_at(channel, name)}
        if summary:
            self.operations[operation]["summary"] = summary.strip().partition("\n")[0]

    def _message(self, name: str, adapter: TypeAdapter[Any] | None) -> Document:
        """A message with the schema of a type; None: its body may be anything."""
        if adapter is None:
            return {}
        try:
            found = adapter.json_schema(ref_template=_SCHEMAS + name + ".{model}")
        except PydanticInvalidForJsonSchema:  # a type with a check of its own, and without a word on its form
            return {}
        for model, schema in found.pop("$defs", {}).items():
            self.schemas[f"{name}.{model}"] = schema
        self.schemas[name] = found
        return {"contentType": "application/json", "payload": {"$ref": f"{_SCHEMAS}{name}"}}


def _at(channel: str, message: str) -> Document:
    place = f"#/channels/{channel}"
    return {"channel": {"$ref": place}, "messages": [{"$ref": f"{place}/messages/{message}"}]}


def _identifier(text: str) -> str:
    """A text as a key of the document: letters, digits, dots, dashes and underscores."""
    written = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in _plain(text))
    return written.strip("-") or "all"


def _plain(text: str) -> str:
    return text.replace("{", "").replace("}", "").replace("**", "rest").replace("*", "any").replace("#", "rest")


def _address(pattern: str) -> tuple[str, list[str]]:
    """A pattern as the address of a channel, and its parameters."""
    address, parameters = "", list[str]()
    rest = pattern
    for word in split(pattern):
        separator, rest = rest[:1], rest[1:]
        rest = rest[len(word) :]
        if word in WILDCARDS:
            name = f"word{len(parameters) + 1}" if word == ONE else "rest"
            parameters.append(name)
            word = f"{{{name}}}"
        address += separator + word
    return address, parameters


def _base(content: object, address: str) -> str:
    named = content.get("$id") if isinstance(content, dict) else None
    return urljoin(address, named) if isinstance(named, str) else address


def _moved(schema: Any, base: str, names: Mapping[str, str]) -> Any:
    """A schema with its `$ref`s as they are inside of the document."""
    if isinstance(schema, list):
        return [_moved(each, base, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return dict(_moved_keys(schema, base, names))


def _moved_keys(schema: Mapping[str, Any], base: str, names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            address, fragment = urldefrag(urljoin(base, value))
            yield key, f"{_SCHEMAS}{names[address]}{fragment}" if address in names else value
        elif key in _BY_NAME and isinstance(value, dict):
            yield key, {name: _moved(each, base, names) for name, each in value.items()}
        elif key not in ("$id", "$schema"):
            yield key, value if key in _NOT_SCHEMAS else _moved(value, base, names)
