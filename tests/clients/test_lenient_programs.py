"""What stomp-php's tests of RabbitMQ send, with `lenient = true`: it speaks 1.2 and names things as in 1.0.

What each of these frames means in each version is for tests/broker/session/test_naming.
"""

from __future__ import annotations

from tests.gateway_process import HOST, start_gateway
from tests.transports.peers import dial


async def test_the_frames_of_stomp_php(name: str) -> None:
    queue, topic = f"/queue/{name}", f"/topic/{name}"
    durable = {"id": "myId", "durable": "true", "auto_delete": "false"}
    with start_gateway(LENIENT="true") as gateway:
        php = await dial("tcp", f"{HOST}:{gateway.tcp_port}")
        connected = await php.connect("1.0,1.1,1.2", login="guest", passcode="guest", heart_beat="0,0")
        assert connected["version"] == "1.2"
        # It subscribes without an id, and its ACK and NACK have the message-id in `id`.
        await php.send_frame("SUBSCRIBE", destination=queue, ack="client", prefetch_count=1)
        for body in (b"a", b"b"):
            await php.publish(queue, body)
        for count, body in enumerate((b"a", b"b", b"a", b"b")):
            frame = await php.frame("MESSAGE")
            assert (frame.body, frame["subscription"]) == (body, queue)
            words = {"message_id": frame["message-id"]} if count < 2 else {}
            await php.send_frame("ACK" if count >= 2 else "NACK", id=frame["message-id"], **words)
        await php.send_frame("UNSUBSCRIBE", destination=queue)
        # A durable subscription outlives the first UNSUBSCRIBE, which does not say that it is durable.
        await php.send_frame("SUBSCRIBE", destination=topic, ack="client-individual", **durable)
        await php.send_frame("UNSUBSCRIBE", destination=topic, id="myId")
        await php.publish(topic, b"test message", persistent="true")
        await php.send_frame("SUBSCRIBE", destination=topic, ack="client-individual", **durable)
        frame = await php.frame("MESSAGE")
        assert frame.body == b"test message"
        await php.send_frame("ACK", id=frame["message-id"])
        await php.send_frame("UNSUBSCRIBE", destination=topic, **durable)
        await php.send_frame("DISCONNECT", receipt="bye")
        assert (await php.frame("RECEIPT"))["receipt-id"] == "bye"
        await php.aclose()
