"""The way to the operator's functions, which know the sender for sure; no client comes by another way."""

from __future__ import annotations

import pytest

from gateway.broker.core.ports import INTERNAL

from ..client import Client, Scene
from ..conftest import Stage


class Functions:
    """An operator's function `add`, as the broker knows it."""

    def queue_of_send(self, name: str) -> str | None:
        return "/handlers/add" if name == "/app/add" else None

    def queue_of_subscribe(self, name: str) -> str | None:
        return "/handlers/subscribed" if name == "/app/add" else None


class TestFunctions:
    @pytest.fixture
    def function(self, scene: Scene) -> Client:
        """The session in which the functions run."""
        scene.broker.context.application = Functions()
        function = scene.connect(transport=INTERNAL)
        for id in ("add", "subscribed"):
            function.subscribe(f"/handlers/{id}", id)
        return function

    @pytest.mark.parametrize("headers", [{}, {"user-id": "ada"}, {"session": "forged"}, {"priority": "9"}])
    def test_a_message_names_its_sender_for_sure(self, scene: Scene, function: Client, headers: dict[str, str]) -> None:
        client = scene.connect_by(b"CONNECT\nlogin:ada\n\n\0")
        client.publish("/app/add", b"2 2", **headers)
        message = function.message()
        assert (message.subscription, message.body) == ("add", b"2 2")
        assert (message.headers["user-id"], message.headers["session"]) == ("ada", client.session.id)
        assert message.headers["destination"] == "/app/add"

    def test_in_a_transaction_and_among_others(self, scene: Scene, function: Client) -> None:
        client = scene.connect()
        client.begin()
        client.publish("/topic/a,/app/add", b"m", transaction="t")
        assert not function.received()
        client.commit()
        message = function.message()
        assert (message.headers["session"], message.headers["destination"]) == (client.session.id, "/app/add")

    def test_a_subscribe_asks_and_gets_the_answer(self, scene: Scene, function: Client) -> None:
        client = scene.connect()
        client.subscribe("/app/add", "7")
        question = function.message()
        assert question.subscription == "subscribed"
        assert question.headers["session"] == question.headers["user-id"] == client.session.id
        function.publish(question.headers["reply-to"], b"4")
        answer = client.message()
        assert (answer.subscription, answer.body) == ("7", b"4")
        client.unsubscribe("7")
        function.publish(question.headers["reply-to"], b"5")
        assert not client.received()

    @pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
    @pytest.mark.parametrize("headers", [{}, {"priority": "5"}])
    @pytest.mark.parametrize("destination", ["/app/nope", "/app/add/", "/app/Add", "/handlers/add", "none"])
    def test_refused(
        self, scene: Scene, function: Client, command: str, destination: str, headers: dict[str, str]
    ) -> None:
        """Unknown functions, the queues of known ones, and all functions where there is no application."""
        if destination == "none":
            scene.broker.context.application, destination = None, "/app/add"
        client = scene.connect()
        client.send(command, {"destination": destination, "id": "0", "session": "forged"} | headers)
        expected = "no function for this" if destination.startswith("/app/") else "unsupported kind of"
        assert client.error().headers["message"] == f"{expected} destination"
        assert not function.received()

    def test_questions_count_as_memory(self, stage: Stage) -> None:
        """A slow function must not let a client fill it by SUBSCRIBE and UNSUBSCRIBE."""
        scene = stage(memory_limit=6_000)
        scene.broker.context.application = Functions()
        client = scene.connect()
        for _ in range(50):
            if not client.closed:
                client.subscribe("/app/add")
            if not client.closed:
                client.unsubscribe()
        assert b"(memory_limit)" in client.error().body
        assert scene.broker.memory.used < 7_000
        function = scene.connect(transport=INTERNAL)
        function.subscribe("/handlers/subscribed")
        assert len(function.messages()) > 5
        assert scene.broker.memory.used == 0
