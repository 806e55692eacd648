"""The RECEIPT of a SUBSCRIBE: it comes before the messages that the subscription brings."""

from __future__ import annotations

import pytest

from gateway.codec import Version

from ..client import Client, Scene
from ..conftest import Stage


def kinds(client: Client) -> list[str]:
    """What came: the receipt-id of a RECEIPT, the body of a MESSAGE."""
    return [
        frame.headers["receipt-id"] if frame.command == "RECEIPT" else frame.body.decode()
        for frame in client.received()
    ]


def end_durable(client: Client) -> None:
    """The durable subscription ends for good."""
    client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})


@pytest.mark.requirement("RCP-03")
class TestBeforeTheMessages:
    @pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
    def test_of_a_queue(self, scene: Scene, version: Version, ack: str) -> None:
        client = scene.connect(version)
        for body in (b"1", b"2"):
            client.publish("/queue/a", body)
        client.subscribe("/queue/a", ack=ack, receipt="r")
        assert kinds(client) == ["r", "1", "2"]
        client.publish("/queue/a", b"3")
        assert kinds(client) == ["3"]

    def test_of_a_second_consumer(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()
        first.subscribe("/queue/a", ack="client", **{"prefetch-count": "1"})
        for body in (b"1", b"2"):
            first.publish("/queue/a", body)
        second.subscribe("/queue/a", ack="client", receipt="r")
        assert kinds(second) == ["r", "2"]
        assert first.bodies() == [b"1"]

    def test_of_a_browser(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"1")
        client.subscribe("/queue/a", browser="true", receipt="r")
        assert kinds(client) == ["r", "1", ""]

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_of_what_a_topic_retained(self, scene: Scene, ack: str) -> None:
        client = scene.connect()
        client.publish("/topic/a", b"kept", retain="set")
        client.subscribe("/topic/a", ack=ack, receipt="r")
        assert kinds(client) == ["r", "kept"]
        client.publish("/topic/a", b"live")
        assert "live" in kinds(client)

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_of_a_replay(self, stage: Stage, ack: str) -> None:
        client = stage({"/topic/a": {"log_messages": 10}}).connect()
        for body in (b"1", b"2"):
            client.publish("/topic/a", body)
        client.subscribe("/topic/a", ack=ack, receipt="r", **{"from-seq": "0"})
        client.publish("/topic/a", b"3")
        came = kinds(client)
        if ack == "client":
            assert came == ["r", "1", "2", "3"]
        else:
            assert came[:3] == ["r", "1", "2"]

    def test_of_news(self, stage: Stage) -> None:
        """A window that the policy made narrow stays so."""
        client = stage({"/topic/a": {"slow_consumer": "drop_oldest"}}).connect()
        client.subscribe("/topic/a", receipt="r")
        (subscription,) = client.session.subscriptions.values()
        assert subscription.window == 16 * 1024
        client.publish("/topic/a", b"1")
        assert kinds(client) == ["r", "1"]

    def test_one_without_a_receipt_waits_for_nothing(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("/queue/a", b"1")
        client.subscribe("/queue/a")
        assert kinds(client) == ["1"]

    def test_one_that_fails_has_none(self, scene: Scene) -> None:
        client = scene.connect()
        client.subscribe("/queue/a", ack="bogus", receipt="r")
        assert client.error().headers["receipt-id"] == "r"


class TestWithAStore:
    def test_a_durable_subscription_is_stored_first(self, stage: Stage) -> None:
        scene = stage(stored=True)
        sender, client = scene.connect(), scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="r", persistent="true")
        sender.publish("/topic/a", b"1")
        assert kinds(client) == []
        scene.commit()
        assert kinds(client) == ["r", "1"]
        sender.publish("/topic/a", b"2")
        assert kinds(client) == ["2"]
        end_durable(client)

    def test_one_that_is_there_already_is_not_stored_again(self, stage: Stage) -> None:
        scene = stage(stored=True)
        first = scene.connect()
        first.subscribe("/topic/a", durable="true")
        scene.commit()
        first.disconnect()
        scene.commit()
        first = scene.connect()
        first.publish("/topic/a", b"1", persistent="true")
        scene.commit()
        first.subscribe("/topic/a", durable="true", receipt="r")
        assert kinds(first) == ["r", "1"]
        end_durable(first)

    def test_stored_messages_of_a_queue_do_not_keep_it_waiting(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("/queue/a", b"1", persistent="true")
        scene.commit()
        client.subscribe("/queue/a", receipt="r")
        assert kinds(client) == ["r", "1"]

    def test_a_durable_one_that_came_and_went_before(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="1")
        client.send("UNSUBSCRIBE", {"id": "0", "durable": "true", "receipt": "2"})
        client.subscribe("/topic/a", durable="true", receipt="3")
        assert kinds(client) == []
        scene.commit()
        assert kinds(client) == ["1", "2", "3"]
        end_durable(client)

    def test_a_durable_one_of_another_session_that_is_not_written_yet(self, stage: Stage) -> None:
        scene = stage(stored=True)
        first, second = scene.connect(), scene.connect()
        first.subscribe("/topic/a", durable="true")
        second.subscribe("/topic/a", durable="true", receipt="r")
        assert kinds(second) == []
        scene.commit()
        assert kinds(second) == ["r"]
        first.unsubscribe()
        end_durable(second)

    def test_a_queue_waits_for_a_send_before_it(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("/queue/b", b"0", persistent="true", receipt="s")
        client.publish("/queue/a", b"1")
        client.subscribe("/queue/a", receipt="r")
        assert kinds(client) == []
        scene.commit()
        assert kinds(client) == ["s", "r", "1"]

    def test_while_the_store_fails_messages_come_without_it(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client, sender = scene.connect(), scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="r")
        scene.vault.storage.failed("no")
        sender.publish("/topic/a", b"1")
        assert kinds(client) == ["1"]
        scene.commit()
        assert kinds(client) == ["r"]
        end_durable(client)

    def test_a_topic_in_mode_auto_waits_for_nothing(self, stage: Stage) -> None:
        """Else its messages would come before the RECEIPT."""
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("/queue/a", b"1", persistent="true", receipt="s")
        client.subscribe("/topic/a", receipt="r")
        client.publish("/topic/a", b"2")
        assert kinds(client) == ["r", "2"]
        scene.commit()
        assert kinds(client) == ["s"]

    def test_one_that_has_ended_meanwhile(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="r")
        client.publish("/topic/a", b"1")
        end_durable(client)
        scene.commit()
        assert kinds(client) == ["r"]

    def test_a_connection_that_has_broken_meanwhile(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client, sender = scene.connect(), scene.connect()
        client.subscribe("/topic/a", durable="true", receipt="r")
        client.drop()
        scene.commit()
        sender.publish("/topic/a", b"1")
        assert kinds(client) == []
        sender.subscribe("/topic/a", durable="true")
        end_durable(sender)
