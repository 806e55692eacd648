"""One broker core behind both transports (XTR): what crosses over, and how it is said in the consumer's version."""

from __future__ import annotations

import pytest

from .requirements import SOCKETS, VERSIONS
from .scene import Scene
from .wire import escaped

requirement = pytest.mark.requirement


@requirement("XTR-01", "BOD-11", "XTR-03", "XTR-04")
def test_a_message_crosses_over_octet_for_octet(stomp: Scene) -> None:
    for kind in ["queue", "topic"]:
        for to in SOCKETS:
            destination = getattr(stomp, kind)()
            watcher, producer = stomp.watch(destination, transport=to), stomp.connect()
            bodies = [b"", b"text", "漢字😀".encode(), bytes(range(256)), b"\0" * 1_000, b"\xff" * 70_000]
            for body in bodies:
                producer.publish(destination, body, {"k": "v", "content-type": "x/y"})
                message = watcher.message()
                assert (message.body, message["k"], message["content-type"]) == (body, "v", "x/y")
                assert message["destination"] == destination


# What can be said in every version, and what the versions say differently.
PLAIN = {"k": "v", "empty": "", "inside": "a b", "ключ": "значение 😀", "X-Case": "Yes"}
COLON_AND_BACKSLASH = {"colon": "12:30:00", "backslash": "C:\\temp\\new", "pair": "\\n\\c\\\\\\r"}


@requirement("XTR-02", "HDR-02", "ENC-01", "ENC-04", "ENC-10", "FRM-12")
def test_versions_mix(stomp: Scene) -> None:
    for to in VERSIONS:
        for over in SOCKETS:
            headers = PLAIN | COLON_AND_BACKSLASH
            message = stomp.sent(headers, to=to, over=over)
            assert {name: message.all(name) for name in headers} == {name: [value] for name, value in headers.items()}
            for name, value in COLON_AND_BACKSLASH.items():
                assert message.raw(name.encode()) == escaped(value, to).encode()


@requirement("XTR-05", "FRM-09")
def test_messages_of_one_producer_stay_in_order(stomp: Scene) -> None:
    for over in SOCKETS:
        queue, producer = stomp.queue(), stomp.connect()
        bodies = [b"%d" % number for number in range(300)]
        for body in bodies[:100]:
            producer.publish(queue, body)
        consumer = stomp.watch(queue, transport=over)
        for body in bodies[100:]:
            producer.publish(queue, body)
        assert [message.body for message in consumer.messages(300)] == bodies
