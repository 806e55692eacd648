"""Typed arguments: what a function gets, what is rejected and with which words, and what cannot be registered."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from gateway.handlers import Handlers, Request

from .conftest import MakeHall

if TYPE_CHECKING:
    from decimal import Decimal

DEAD = {"/handlers/send/#": {"dead_letter": "/queue/dead"}}


class Item(BaseModel):
    name: str
    price: Annotated[float, Field(gt=0)]


class Order(BaseModel):
    id: int
    items: list[Item]


@dataclasses.dataclass
class Point:
    x: int
    y: int


@dataclasses.dataclass
class Seen:
    """What the functions below were called with."""

    calls: list[object] = dataclasses.field(default_factory=list)


@pytest.fixture
def seen(handlers: Handlers) -> Seen:
    seen = Seen()

    @handlers.send("/app/order")
    async def order(request: Request, order: Order) -> Order:
        seen.calls.append(order)
        return order

    @handlers.send("/app/room/{number}/{day}")
    async def room(request: Request, number: int, day: datetime.date) -> dict[str, object]:
        seen.calls.append((number, day))
        return {"next": number + 1, "day": day}

    @handlers.send("/app/points")
    async def points(request: Request, *, points: list[Point]) -> int:
        seen.calls.append(points)
        return len(points)

    @handlers.send("/app/text")
    async def text(request: Request, body: str) -> str:
        seen.calls.append(body)
        return body.upper()

    @handlers.send("/app/raw")
    async def raw(request: Request, body: bytes) -> bytes:
        seen.calls.append(body)
        return body

    @handlers.send("/app/key/{key}/{kind}")
    async def key(request: Request, key: uuid.UUID, kind: Literal["a", "b"], size: int = 3) -> None:
        seen.calls.append((key, kind, size))

    return seen


class TestCalling:
    @pytest.mark.parametrize(
        ("destination", "body", "call", "answer", "media_type"),
        [
            (
                "/app/order",
                b'{"id": 7, "items": [{"name": "tea", "price": 3.5}]}',
                Order(id=7, items=[Item(name="tea", price=3.5)]),
                {"id": 7, "items": [{"name": "tea", "price": 3.5}]},
                "application/json",
            ),
            (
                "/app/room/12/2026-11-24",
                b"",
                (12, datetime.date(2026, 11, 24)),
                {"next": 13, "day": "2026-11-24"},
                "application/json",
            ),
            ("/app/points", b'[{"x": 1, "y": 2}]', [Point(1, 2)], 1, "application/json"),
            ("/app/text", "grün".encode(), "grün", "GRÜN", None),
            ("/app/raw", b"\xff\0", b"\xff\0", None, None),
        ],
    )
    async def test_arguments_and_answers(
        self,
        seen: Seen,
        make_hall: MakeHall,
        destination: str,
        body: bytes,
        call: object,
        answer: object,
        media_type: str | None,
    ) -> None:
        hall = make_hall().begin()
        reply = await hall.ask(await hall.client(), destination, body)
        assert seen.calls == [call]
        assert reply.headers.get("content-type") == media_type
        if media_type:
            assert json.loads(reply.body) == answer
        elif answer is not None:
            assert reply.body.decode() == answer
        else:
            assert reply.body == body

    async def test_defaults_stay_what_they_are(self, seen: Seen, make_hall: MakeHall) -> None:
        hall = make_hall().begin()
        peer, key = await hall.client(), uuid.uuid4()
        await peer.publish(f"/app/key/{key}/b", b"of no use")
        await peer.settled()
        await hall.ask(peer, "/app/text", b"behind it")
        assert (key, "b", 3) in seen.calls


class TestRejected:
    @pytest.mark.parametrize(
        ("destination", "body", "reason"),
        [
            ("/app/order", b"secret", "the body: Invalid JSON: expected value at line 1 column 1"),
            ("/app/order", b'{"id": "secret", "items": []}', "the body: id: Input should be a valid integer, "),
            (
                "/app/order",
                b'{"id": 1, "items": [{"name": "tea", "price": -2}]}',
                "the body: items.0.price: Input should be greater than 0",
            ),
            (
                "/app/order",
                b'{"items": [{}, {}, {}]}',
                "the body: id: Field required; items.0.name: Field required; items.0.price: Field required; and 4 more",
            ),
            ("/app/room/many/2026-11-24", b"", "number in the destination: Input should be a valid integer, "),
            ("/app/key/x/a", b"", "key in the destination: Input should be a valid UUID, "),
            ("/app/text", b"\xff", "the body is not UTF-8"),
        ],
    )
    async def test_the_dead_letter_says_where(
        self, seen: Seen, make_hall: MakeHall, destination: str, body: bytes, reason: str
    ) -> None:
        hall = make_hall(DEAD).begin()
        peer = await hall.client()
        await peer.publish(destination, body)
        (letter,) = await peer.subscribe_and_read("/queue/dead", 1)
        assert letter["reason"].replace("\\c", ":").startswith(reason)
        assert "secret" not in letter["reason"]
        assert (letter["dlq-reason"], letter.body) == ("rejected", body)
        assert seen.calls == []


async def test_a_client_that_asks_for_it_is_told(seen: Seen, make_hall: MakeHall) -> None:
    hall = make_hall(DEAD).begin()
    answer = await hall.ask(await hall.client(), "/app/order", b"{}", mandatory="true")
    assert answer["reply-error"] == "rejected"
    said = b"the consumers of /app/order have rejected the message: the body: id: Field required"
    assert answer.body.startswith(said)


async def untyped(request: Request, order) -> None:  # type: ignore[no-untyped-def]
    raise NotImplementedError


async def two(request: Request, order: Order, item: Item) -> None:
    raise NotImplementedError


async def unknown(request: Request, price: Decimal) -> None:
    raise NotImplementedError


class Opaque:
    """No type that pydantic knows."""


async def opaque(request: Request, thing: Opaque) -> None:
    raise NotImplementedError


async def unknown_field(request: Request, name: Decimal) -> None:
    raise NotImplementedError


async def unknown_answer(request: Request) -> Decimal:
    raise NotImplementedError


class TestRegistering:
    @pytest.mark.parametrize(
        ("call", "sentence"),
        [
            (
                untyped,
                "untyped for '/app/a': order is no field of the destination; annotate it with the type of",
            ),
            (
                two,
                "two for '/app/a': only one argument can be the body, and order and item have neither field",
            ),
            (
                unknown,
                "unknown for '/app/a': the type of price, Decimal, is not known where the function stands: name ",
            ),
            (
                opaque,
                "opaque for '/app/a': the type of thing cannot be checked: Unable to generate pydantic-core schema",
            ),
            (unknown_answer, "unknown_answer for '/app/a': the type of the answer, Decimal, is not known"),
        ],
    )
    def test_what_cannot_be_called(self, call: Callable[..., Any], sentence: str) -> None:
        with pytest.raises(ValueError) as refusal:
            Handlers().send("/app/a")(call)
        assert str(refusal.value).startswith(sentence)

    def test_a_field_whose_type_only_a_type_checker_knows_stays_text(self) -> None:
        """As it was before there were types."""
        handlers = Handlers()
        handlers.send("/app/{name}")(unknown_field)
        (function,) = handlers.functions()
        assert function.arguments.fields == {}

    def test_callables_of_other_kinds(self) -> None:
        class Shop:
            async def order(self, request: Request, order: Order) -> None:
                raise NotImplementedError

            async def __call__(self, request: Request, order: Order) -> None:
                raise NotImplementedError

        async def bound(kind: str, request: Request, order: Order) -> None:
            raise NotImplementedError

        handlers = Handlers()
        handlers.send("/app/a")(Shop().order)
        handlers.send("/app/b")(Shop())
        handlers.send("/app/c")(functools.partial(bound, "tea"))
        assert [each.arguments.body for each in handlers.functions()] == ["order"] * 3

    def test_a_model_made_by_the_operator(self) -> None:
        made: Any = create_model("Made", id=(int, ...))

        async def call(request: Request, body: made) -> None:
            raise NotImplementedError

        call.__annotations__["body"] = made
        handlers = Handlers()
        handlers.send("/app/a")(call)
        (function,) = handlers.functions()
        assert function.arguments.body_type is not None
