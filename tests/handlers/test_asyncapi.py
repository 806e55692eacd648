"""The AsyncAPI document: valid by the schema of AsyncAPI itself, and with the schemas of functions and policies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import pytest
from pydantic import BaseModel

from gateway.handlers import Handlers, Request, asyncapi
from gateway.handlers.asyncapi import DestinationSchema
from tests.handlers.test_typed import Opaque

SPECIFICATION = Path(__file__).parents[2] / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0.json"
SERVERS = {"websocket": {"host": "127.0.0.1:15674", "protocol": "ws", "pathname": "/ws"}}


@cache
def validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads(SPECIFICATION.read_text()))


def made(handlers: Handlers | None = None, schemas: Sequence[DestinationSchema] = ()) -> Any:
    """The document, which is valid, and whose references all point at something."""
    found = asyncapi.document(handlers.functions() if handlers is not None else (), schemas, SERVERS)
    assert [(list(each.instance_path), each.message) for each in validator().iter_errors(found)] == []
    for reference in references(found):
        place: Any = found
        for word in reference.removeprefix("#/").split("/"):
            place = place[word]
    return found


def references(value: object) -> list[str]:
    if isinstance(value, list):
        return [each for one in value for each in references(one)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [each for key, one in value.items() if key != "const" for each in references(one)]


class Item(BaseModel):
    name: str
    parts: list[Item] = []


class Order(BaseModel):
    """An order of a customer."""

    items: list[Item]


class Receipt(BaseModel):
    number: int


async def order(request: Request, shop: str, order: Order) -> Receipt:
    """Take an order.

    This is for its authors.
    """
    raise NotImplementedError


async def prices(request: Request) -> list[Item]:
    raise NotImplementedError


async def plain(request: Request) -> None:
    raise NotImplementedError


def test_nothing() -> None:
    found = made()
    assert (found["asyncapi"], found["servers"], found["channels"]) == ("3.0.0", SERVERS, {})


def test_a_function_for_messages() -> None:
    handlers = Handlers()
    handlers.send("/app/shop/{shop}/order")(order)
    found = made(handlers)
    channel = found["channels"]["send-app-shop-shop-order"]
    assert (channel["address"], channel["parameters"]) == ("/app/shop/{shop}/order", {"shop": {}})
    operation = found["operations"]["send-app-shop-shop-order"]
    assert (operation["action"], operation["summary"]) == ("receive", "Take an order.")
    assert operation["reply"]["address"] == {"location": "$message.header#/reply-to"}
    schemas = found["components"]["schemas"]
    body = schemas[channel["messages"]["request"]["payload"]["$ref"].rpartition("/")[2]]
    assert body["description"] == "An order of a customer."
    item = schemas[body["properties"]["items"]["items"]["$ref"].rpartition("/")[2]]
    assert item["properties"]["name"]["type"] == "string"
    (reply,) = found["channels"]["send-app-shop-shop-order-reply"]["messages"].values()
    assert schemas[reply["payload"]["$ref"].rpartition("/")[2]]["required"] == ["number"]


def test_a_function_for_subscriptions() -> None:
    handlers = Handlers()
    handlers.subscribe("/app/prices")(prices)
    found = made(handlers)
    assert found["operations"]["subscribe-app-prices"]["action"] == "send"
    (answer,) = found["channels"]["subscribe-app-prices"]["messages"].values()
    assert found["components"]["schemas"][answer["payload"]["$ref"].rpartition("/")[2]]["type"] == "array"


def test_functions_without_types() -> None:
    handlers = Handlers()
    handlers.send("/app/plain")(plain)
    handlers.subscribe("/app/plain")(plain)
    assert made(handlers)["components"]["schemas"] == {}


def test_a_type_without_a_schema() -> None:
    async def odd(request: Request, thing: Odd) -> None:
        raise NotImplementedError

    handlers = Handlers()
    handlers.send("/app/odd")(odd)
    assert made(handlers)["components"]["schemas"] == {}


class Odd(BaseModel, arbitrary_types_allowed=True):
    thing: Opaque


@pytest.mark.parametrize(
    ("pattern", "address", "parameters"),
    [
        ("/queue/orders", "/queue/orders", None),
        ("/topic/room.*.news", "/topic/room.{word1}.news", ["word1"]),
        ("/topic/*/*/#", "/topic/{word1}/{word2}/{rest}", ["word1", "word2", "rest"]),
        ("/topic/größe.>", "/topic/größe.{rest}", ["rest"]),
    ],
)
def test_a_policy(pattern: str, address: str, parameters: list[str] | None) -> None:
    found = made(schemas=[DestinationSchema([pattern], {"file:///a/b.json": {"type": "object"}})])
    (channel,) = found["channels"].values()
    assert channel["address"] == address
    assert list(channel.get("parameters", {})) == (parameters or [])
    assert sorted(each["action"] for each in found["operations"].values()) == ["receive", "send"]
    assert found["components"]["schemas"] == {"file-b.json": {"type": "object"}}


def test_references_of_files() -> None:
    first = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.org/order.json",
        "properties": {
            "self": {"$ref": "#"},
            "named": {"$ref": "https://example.org/order.json#/$defs/a"},
            "default": {"$ref": "#/$defs/a", "const": {"$ref": "of no meaning"}},
        },
        "$defs": {"a": {"anyOf": [{"$ref": "#/properties/default"}]}},
    }
    second = {"items": {"$ref": "item.json#/$defs/price"}}
    item = {"$defs": {"price": {"type": "number"}}}
    found = made(
        schemas=[
            DestinationSchema(["/queue/a"], {"file:///x/order.json": first}),
            DestinationSchema(["/queue/b"], {"file:///y/order.json": second, "file:///y/item.json": item}),
            DestinationSchema(["/queue/c"], {"file:///x/order.json": first}),
        ]
    )
    schemas = cast(dict[str, Any], found["components"]["schemas"])
    assert list(schemas) == ["file-order.json", "file-order.json-2", "file-item.json"]
    at = "#/components/schemas/file-order.json"
    assert schemas["file-order.json"]["properties"]["self"] == {"$ref": at}
    assert schemas["file-order.json"]["properties"]["named"] == {"$ref": f"{at}/$defs/a"}
    assert schemas["file-order.json"]["$defs"] == {"a": {"anyOf": [{"$ref": f"{at}/properties/default"}]}}
    default = {"$ref": f"{at}/$defs/a", "const": {"$ref": "of no meaning"}}
    assert schemas["file-order.json"]["properties"]["default"] == default
    assert schemas["file-order.json-2"]["items"] == {"$ref": "#/components/schemas/file-item.json/$defs/price"}
