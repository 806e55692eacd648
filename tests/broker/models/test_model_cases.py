"""What the search for differences between the broker and its model has found, where the model was wrong."""

from __future__ import annotations

import pytest

from gateway.codec import V12

from ..client import Client, Scene
from .model_books import Consumer, Copy, Rules, Sent, Settlement
from .model_watch import Watch
from .simple_broker import Model

QUEUE = "/queue/retry"


class Play:
    """One client, who does what he is told, on a queue with a back-off."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        rules = {QUEUE: Rules(backoff=0.25)}
        self.scene = Scene({QUEUE: rules[QUEUE].policy()})
        self.model = Model(self.scene, rules)
        self.watch = Watch(self.model, patch)
        self.client: Client = self.scene.connect(V12)

    def subscribe(self, id: str, selector: str = "", priority: int = 0) -> Consumer:
        consumer = Consumer(self.client, id, QUEUE, "client-individual", selector, priority=priority)
        self.model.subscribe(consumer)
        asked = {"selector": selector} if selector else {}
        self.client.subscribe(QUEUE, id, consumer.mode, **asked, **{"x-priority": str(priority)})
        self.watch.look()
        return consumer

    def publish(self, body: bytes, group: str, **headers: str) -> None:
        self.model.publish(Sent(self.client, body, (QUEUE,), headers, group=group))
        self.client.publish(QUEUE, body, JMSXGroupID=group, **headers)
        self.watch.look()

    def reject(self, copy: Copy) -> None:
        assert copy.message is not None
        self.model.settle(Settlement([copy], acknowledged=False))
        self.client.nack(copy.message)
        self.watch.look()

    def wait(self) -> None:
        """Until something is due."""
        due = self.model.next
        assert due is not None
        self.scene.now = due
        self.model.pass_time()
        self.scene.broker.scheduler.tick()
        self.scene.settle()
        self.watch.look()


def test_what_comes_back_at_the_same_moment_is_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has a group gets more of it, although what he does not want stood between: that comes back behind it."""
    play = Play(monkeypatch)
    red, blue = play.subscribe("red", "kind = 'red'", priority=1), play.subscribe("blue", "kind IS NULL OR n > 1")
    play.publish(b"1", "g", kind="red")
    play.publish(b"2", "g", kind="blue", n="2")
    play.publish(b"3", "g", kind="red")
    everything = play.subscribe("everything")
    for copy in [*red.ledger, *blue.ledger]:
        play.reject(copy)
    play.wait()
    held = [[copy.sent.body for copy in consumer.ledger] for consumer in (red, blue, everything)]
    assert held == [[b"1", b"3"], [], [b"2"]]
    play.scene.finish()
