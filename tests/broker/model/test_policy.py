"""Policies: which one a name has, what it computes, and what a client may notice for the queue that it creates."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import DEFAULT, OnNack, Policies, Policy, QueueArguments, SlowConsumerAction, WhenFull
from gateway.broker.queue.queue import Queue

from ..client import Scene
from ..conftest import Stage


def policies(*rules: tuple[str, dict[str, Any]]) -> Policies:
    return Policies([(Pattern(text), values) for text, values in rules])


def policy_of(scene: Scene, name: str) -> Policy:
    """The policy that a queue got when it came into being."""
    queue = scene.broker.destinations[name]
    assert isinstance(queue, Queue)
    return queue.policy


class TestPolicy:
    def test_the_back_off(self) -> None:
        for keys, expected in [
            ({}, [0.1, 0.2, 0.4, 0.8, 1.6]),
            ({"backoff": 0.0}, [0.0] * 5),
            ({"backoff": 1.0, "backoff_factor": 1.0}, [1.0] * 5),
            ({"backoff": 1.0, "backoff_factor": 3.0, "backoff_max": 10.0}, [1.0, 3.0, 9.0, 10.0, 10.0]),
            ({"backoff": 5.0, "backoff_max": 2.0}, [2.0] * 5),
        ]:
            policy = Policy(**keys)
            assert [policy.delay_after(failures) for failures in range(1, 6)] == pytest.approx(expected)

        for failures in [65, 1_000, 10**6]:
            policy = Policy(backoff=1.0, backoff_factor=100.0, backoff_max=60.0)
            assert policy.delay_after(failures) == 60.0, "it does not overflow"

    def test_where_dead_letters_go_by_default(self) -> None:
        for name, target in [
            ("/queue/a", "/queue/dlq.a"),
            ("/queue/a/b.c", "/queue/dlq.a/b.c"),
            ("/queue//", "/queue/dlq./"),
            ("/queue/dlq", "/queue/dlq.dlq"),
            ("/queue/dlq.a", ""),
            ("/topic/a", ""),
            ("/topic/#", ""),
            ("/user/ada/queue/a", ""),
            ("/exchange/amq.direct/a", ""),
            ("/reply-queue/0123", ""),
        ]:
            assert DEFAULT.target_of(name) == target
            assert Policy(dead_letter="/queue/x").target_of(name) == "/queue/x"
            assert Policy(dead_letter="").target_of(name) == ""


class TestFind:
    def test_all_that_match_apply_and_the_last_counts(self) -> None:
        found = policies(
            ("/queue/#", {"max_messages": 1, "max_attempts": 1, "time_to_live": 1.0}),
            ("/topic/#", {"max_attempts": 9}),
            ("/queue/a.*", {"max_messages": 2, "max_attempts": 2}),
            ("/queue/a.b", {"max_messages": 3}),
        ).find("/queue/a.b")
        assert found == Policy(max_messages=3, max_attempts=2, time_to_live=1.0)

    def test_only_who_names_dead_letters_lets_them_go(self) -> None:
        ends = {"max_attempts": 5, "time_to_live": 60.0, "auto_delete": True, "idle_timeout": 60.0}
        of_all = ("/queue/#", ends | {"backoff": 2.0})
        assert Policies().find("/queue/dlq.a").max_attempts == 0
        assert Policies().find("/queue/dlq").max_attempts == 10
        assert policies(of_all).find("/queue/dlq.a") == Policy(max_attempts=0, backoff=2.0)
        assert policies(of_all, ("/queue/dlq.#", ends)).find("/queue/dlq.a") == Policy(**ends, backoff=2.0)
        assert policies(of_all).find("/queue/dlq") == Policy(**ends, backoff=2.0)


class TestArguments:
    def test_none_change_nothing(self) -> None:
        policy = Policy(max_messages=5, when_full=WhenFull.DEAD_LETTER)
        assert QueueArguments().applied_to(policy) == policy

    def test_what_they_do_not_speak_of_is_the_operators(self) -> None:
        policy = Policy(
            max_attempts=3,
            backoff=9.0,
            on_nack=OnNack.DROP,
            slow_consumer=SlowConsumerAction.DROP_NEWEST,
            conflate_by="key",
        )
        found = QueueArguments(time_to_live=1.0, idle_timeout=2.0, auto_delete=True).applied_to(policy)
        assert found == dataclasses.replace(policy, time_to_live=1.0, idle_timeout=2.0, auto_delete=True)

    def test_they_never_widen_what_the_operator_allows(self) -> None:
        for operators, notice, expected in [(0, 5, 5), (9, 5, 5), (5, 5, 5), (5, 9, 5)]:
            for key in ["max_messages", "max_bytes", "time_to_live", "idle_timeout"]:
                found = QueueArguments(**{key: notice}).applied_to(Policy(**{key: operators}))  # type: ignore[arg-type]
                assert getattr(found, key) == expected

    def test_a_queue_that_only_a_client_limits_drops_the_oldest(self) -> None:
        for notice in [3, 9]:
            for key in ["max_messages", "max_bytes"]:
                assert QueueArguments(**{key: notice}).applied_to(Policy()).when_full is WhenFull.DROP_OLDEST  # type: ignore[arg-type]
                limited = Policy(max_messages=5, when_full=WhenFull.DROP_NEWEST)
                assert QueueArguments(**{key: notice}).applied_to(limited).when_full is WhenFull.DROP_NEWEST  # type: ignore[arg-type]

    def test_a_client_may_name_where_dead_letters_go(self) -> None:
        """All of them, as RabbitMQ has it: also those that expired, and those for which there was no room."""
        found = QueueArguments(dead_letter="/queue/x", max_messages=3).applied_to(Policy())
        assert found == Policy(
            dead_letter="/queue/x", dead_letter_expired=True, max_messages=3, when_full=WhenFull.DEAD_LETTER
        )

    def test_unless_the_operator_did(self) -> None:
        for operators in ["", "/queue/y"]:
            policy = Policy(dead_letter=operators)
            assert QueueArguments(dead_letter="/queue/x").applied_to(policy) == policy


HEADERS = {
    "x-message-ttl": "1500",
    "x-expires": "2500",
    "x-max-length": "3",
    "x-max-length-bytes": "100000",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "graveyard",
    "auto-delete": "true",
}
EXPECTED = Policy(
    backoff=0.0,
    time_to_live=1.5,
    idle_timeout=2.5,
    max_messages=3,
    max_bytes=100_000,
    when_full=WhenFull.DEAD_LETTER,
    dead_letter="/queue/graveyard",
    dead_letter_expired=True,
    auto_delete=True,
)


class TestArgumentsInFrames:
    @pytest.mark.parametrize("way", ["SEND", "SUBSCRIBE", "COMMIT"])
    def test_of_the_frame_that_creates_the_queue(self, scene: Scene, way: str) -> None:
        client = scene.connect()
        if way == "SUBSCRIBE":
            client.subscribe("/queue/a", **HEADERS)
        elif way == "SEND":
            client.publish("/queue/a", b"m", **HEADERS)
        else:
            client.begin()
            client.publish("/queue/a", b"m", transaction="t", **HEADERS)
            assert not scene.broker.destinations
            client.commit()
        client.publish("/queue/a", b"m", **HEADERS)
        assert policy_of(scene, "/queue/a") == EXPECTED
        (notice,) = scene.notices
        told = (notice.queue, notice.in_force, notice.session, notice.login)
        assert told == ("/queue/a", True, client.session.id, client.session.login)
        expected = {key: getattr(EXPECTED, key) for key in notice.values} | {"when_full": "dead-letter"}
        assert notice.values == expected
        assert len(expected) == 8
        if way != "SUBSCRIBE":
            client.subscribe("/queue/a")
        assert not [name for message in client.messages() for name in message.headers if name.startswith("x-")]

    @pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
    @pytest.mark.parametrize("used_by", ["messages", "a consumer"])
    def test_a_queue_that_is_there_does_not_change_and_nobody_is_refused(
        self, scene: Scene, used_by: str, command: str
    ) -> None:
        """What others sent was confirmed to be kept.  RabbitMQ closes such a client (PRECONDITION_FAILED)."""
        client, stranger = scene.connect(), scene.connect()
        if used_by == "messages":
            for body in (b"1", b"2"):
                client.publish("/queue/a", body, **{"x-max-length": "5"})
        else:
            client.subscribe("/queue/a", ack="client", **{"prefetch-count": "1", "x-max-length": "5"})
        before = policy_of(scene, "/queue/a")
        assert (before.max_messages, before.time_to_live) == (5, 0.0)
        stranger.send(command, {"destination": "/queue/a", "id": "0", "browser": "false"} | HEADERS)
        assert not stranger.closed
        assert policy_of(scene, "/queue/a") == before
        notice = scene.notices[-1]
        told = (notice.queue, notice.in_force, notice.session, notice.login)
        assert told == ("/queue/a", False, stranger.session.id, stranger.session.login)
        assert notice.values["time_to_live"] == 1.5

    def test_arguments_that_change_nothing_are_not_told(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"max_messages": 5}})
        client = scene.connect()
        for headers in ({"auto-delete": "false"}, {"x-max-length": "9"}):
            client.publish("/queue/a", b"m", **headers)
        client.subscribe("/temp-queue/a", **HEADERS)
        client.subscribe("/topic/a", "t", **HEADERS)
        client.publish("/topic/a", b"m", **HEADERS)
        assert client.bodies() == [b"m"]
        assert not scene.notices


def test_which_topics_keep_a_log() -> None:
    rules = [("/topic/#", {"log_age": 5.0}), ("/topic/b", {"log_age": 0.0}), ("/topic/#", {"max_attempts": 3})]
    policies = Policies([(Pattern(text), values) for text, values in rules])
    for name in ["/topic/a", "/topic/b", "/queue/a"]:
        assert policies.keeps_stream(name) is policies.find(name).keeps_stream is (name == "/topic/a")
