"""Which header an identifier means."""

from __future__ import annotations

from gateway.broker.selectors import parse
from gateway.broker.selectors.identifiers import reader


def test_the_names_of_jms() -> None:
    for name, header in [
        ("JMSType", "type"),
        ("JMSCorrelationID", "correlation-id"),
        ("JMSPriority", "priority"),
        ("JMSTimestamp", "timestamp"),
        ("JMSReplyTo", "reply-to"),
        ("JMSDestination", "destination"),
        ("JMSExpiration", "expires"),
        ("JMSXGroupID", "message_group"),
        ("JMSXUserID", "user-id"),
    ]:
        read = reader(name)
        assert read({header: "7"}) == "7"
        assert read({header: "7", name: "8"}) == "8"
        assert read({header: "7", name: ""}) == ""
        assert read({}) == ("4" if name == "JMSPriority" else None)
        assert parse(f"{name} = '7'")({header: "7"})


def test_what_is_the_servers_or_the_senders_alone_is_never_there() -> None:
    for name in ["JMSMessageID", "JMSRedelivered", "message-id", "redelivered", "receipt", "ack"]:
        assert reader(name)({name: "7", "message-id": "7", "redelivered": "7"}) is None
        assert parse(f'"{name}" IS NULL')({name: "7"})


def test_the_delivery_mode() -> None:
    for headers, mode in [
        ({}, "NON_PERSISTENT"),
        ({"persistent": "true"}, "PERSISTENT"),
        ({"persistent": "TRUE"}, "PERSISTENT"),
        ({"persistent": "false"}, "NON_PERSISTENT"),
        ({"persistent": "1"}, "NON_PERSISTENT"),
        ({"persistent": "true", "JMSDeliveryMode": "2"}, "2"),
    ]:
        assert reader("JMSDeliveryMode")(headers) == mode
        assert parse(f"JMSDeliveryMode = '{mode}'")(headers)


def test_any_other_name_is_the_header_of_that_very_name() -> None:
    assert reader("color")({"color": "red", "Color": "blue"}) == "red"
    assert reader("jmstype")({"type": "car"}) is None
    assert reader("priority")({}) is None
