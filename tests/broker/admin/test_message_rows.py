"""Messages that wait, as the admin API lists them."""

from __future__ import annotations

from base64 import b64decode

import pytest

from gateway.broker.admin.message_rows import HIDDEN, SECRETS

from ..client import EPOCH, Client, Scene
from ..conftest import Stage
from ..recorder import recorded
from .operators import Operator


def row(scene: Scene, name: str = "a") -> dict[str, object]:
    (found,) = Operator(scene).browse(name).messages
    return found


def dead(scene: Scene, **headers: str) -> Client:
    """A dead letter of /queue/a."""
    client = scene.connect()
    client.publish("a", b"x", **headers)
    client.subscribe("a", ack="client-individual")
    client.nack(client.message(), requeue="false", reason="bad")
    client.unsubscribe()
    return client


def test_a_message(scene: Scene) -> None:
    client = scene.connect()
    client.publish("a", "grüß".encode(), priority="7", color="red")
    assert row(scene) == {
        "id": f"{_run(scene)}-1",
        "position": 0,
        "destination": "a",
        "size": 6,
        "priority": 7,
        "expires": None,
        "sent": None,
        "deliveries": 0,
        "redelivered": False,
        "delayed": False,
        "headers": {"destination": "a", "priority": "7", "color": "red"},
        "dead_letter": None,
        "body": "grüß",
        "body_encoding": "utf-8",
        "truncated": False,
    }


def test_headers_that_would_fill_a_page(scene: Scene) -> None:
    """A list has rows by the thousand, and a client may write headers of 256 KiB in each message."""
    scene.connect().publish("a", b"x", first="x" * 3_000, large="x" * 5_000, second="x" * 3_000, last="1")
    found = row(scene)
    assert found["headers"] == {"destination": "a", "first": "x" * 3_000, "last": "1"}
    assert (found["truncated"], found["body"]) == (True, "x")
    whole = Operator(scene).find("a", str(found["id"]), 1024 * 1024)
    assert whole is not None
    assert (len(whole["headers"]), whole["truncated"]) == (5, False)  # type: ignore[arg-type]


def _run(scene: Scene) -> str:
    queue = scene.broker.destinations["/queue/a"]
    return str(Operator(scene).ids(queue.name)[0]).partition("-")[0]


def test_one_that_a_consumer_gave_back(stage: Stage) -> None:
    scene = stage({"/queue/a": {"backoff": 10.0}})
    recorded(scene)
    client = scene.connect()
    client.subscribe("a", ack="client-individual")
    client.publish("a", b"x", ttl="5000")
    client.nack(client.message())
    found = row(scene)
    assert (found["deliveries"], found["redelivered"], found["delayed"]) == (1, True, True)
    assert found["expires"] == EPOCH + scene.now + 5.0
    sent = found["sent"]
    assert isinstance(sent, float), "the recorder knows it"
    assert scene.now - 1 < sent - EPOCH <= scene.now


def test_a_dead_letter(stage: Stage) -> None:
    scene = stage(stored=True)
    dead(scene, persistent="true")
    letter = {"destination": "a", "source": "/queue/a", "reason": "rejected", "failures": 1}
    letter["first_at"] = EPOCH + scene.now
    headers = {"dlq-reason": "x", "dlq-source": "/queue/b", "dlq-attempts": "many", "dlq-first-at": "never"}
    scene.connect().publish("a", b"x", **headers)
    assert row(scene)["dead_letter"] is None, "a client made it look like one"
    assert row(scene, "dlq.a")["dead_letter"] == letter
    scene.commit()
    assert row(scene.crash(), "dlq.a")["dead_letter"] == letter


def test_secrets_are_hidden(scene: Scene) -> None:
    names = [*SECRETS, "Authorization", "PassCode"]
    scene.connect().publish("a", b"x", other="shown", **dict.fromkeys(names, "top secret"))
    expected = {"destination": "a", "other": "shown", **dict.fromkeys(names, HIDDEN)}
    assert row(scene)["headers"] == expected


@pytest.mark.parametrize(
    ("body", "most", "shown", "encoding"),
    [
        (b"abcd", 3, b"abc", "utf-8"),
        ("aä".encode(), 2, b"a", "utf-8"),
        ("a€".encode(), 3, b"a", "utf-8"),
        ("€".encode(), 3, "€".encode(), "utf-8"),
        (b"a\xe2", 2, b"a\xe2", "base64"),
        (b"a\xffbc", 2, b"a\xff", "base64"),
        (b"", 3, b"", "utf-8"),
    ],
)
def test_bodies(scene: Scene, body: bytes, most: int, shown: bytes, encoding: str) -> None:
    before = b"-" * 20  # so many characters the headers need, too
    body, most, shown = before + body, len(before) + most, before + shown
    client = scene.connect()
    client.publish("a", body)
    operator = Operator(scene)
    found = operator.find("a", operator.ids("a")[0], most)
    assert found is not None
    text = str(found["body"])
    assert (b64decode(text) if encoding == "base64" else text.encode()) == shown
    assert (found["body_encoding"], found["truncated"], found["size"]) == (encoding, len(body) > most, len(body))
