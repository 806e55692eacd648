"""Cases of the header table: the options that each header gives, and the values that it refuses.

`test_parse_by_table` fails for a header that is missing here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from gateway.broker.headers.parse import send_options, subscribe_options
from gateway.broker.model.options import Origin, Retain, SendOptions, Start, SubscribeOptions

TEN_YEARS = 315_360_000
YEAR_9999 = 253_402_300_799.999

Case = tuple[str, dict[str, Any]]

# What an honoured header of a SEND makes of `PLAIN`.
SENT: dict[str, list[Case]] = {
    "mandatory": [("true", {"mandatory": True}), ("false", {})],
    "persistent": [("true", {"persistent": True}), ("false", {"persistent": False})],
    "transaction": [("tx", {"transaction": "tx"}), ("", {"transaction": ""})],
    "priority": [
        ("0", {"priority": 0}),
        ("007", {"priority": 7}),
        ("-0", {"priority": 0}),
        ("9", {"priority": 9}),
        ("10", {"priority": 9}),
        ("255", {"priority": 9}),
    ],
    "expires": [("1700000000123", {"expires_at": 1_700_000_000.123}), ("0", {}), ("1", {"expires_at": 0.001})],
    "expiration": [("60000", {"time_to_live": 60.0}), ("0", {"time_to_live": 0.001})],
    "ttl": [("1500", {"time_to_live": 1.5}), ("0", {"time_to_live": 0.001})],
    "x-delay": [("50", {"delay": 0.05}), ("0", {}), ("-5000", {}), (f"{TEN_YEARS}000", {"delay": TEN_YEARS})],
    "AMQ_SCHEDULED_DELAY": [("3000", {"delay": 3.0}), ("-1", {})],
    "AMQ_SCHEDULED_TIME": [("1700000000123", {"deliver_at": 1_700_000_000.123}), ("0", {"deliver_at": 0.0})],
    "AMQ_SCHEDULED_CRON": [("0 9 * * *", {"cron": "0 9 * * *"}), ("", {})],
    "schedule-timezone": [("Europe/Berlin", {"timezone": "Europe/Berlin"}), ("", {})],
    "AMQ_SCHEDULED_PERIOD": [("1500", {"period": 1.5}), ("0", {})],
    "AMQ_SCHEDULED_REPEAT": [("9", {"repeat": 9}), ("-1", {"repeat": -1}), ("0", {})],
    "_AMQ_SCHED_DELIVERY": [("253402300799999", {"deliver_at": YEAR_9999})],
    "JMSXGroupID": [("a", {"group": "a"}), ("", {})],
    "message_group": [("a", {"group": "a"}), ("", {})],
    "_AMQ_GROUP_ID": [("a", {"group": "a"}), ("x" * 1_000, {"group": "x" * 1_000})],
    "JMSXGroupSeq": [("-1", {}), ("7", {})],  # of no group: see below
    "dedup-id": [("a-1", {"dedup_id": "a-1"})],
    "_AMQ_DUPL_ID": [("a-1", {"dedup_id": "a-1"})],
    "retain": [
        ("set", {"retain": Retain.SET}),
        ("SET", {"retain": Retain.SET}),
        ("True", {"retain": Retain.SET}),
        ("remove", {"retain": Retain.REMOVE}),
        ("false", {}),
    ],
    "ActiveMQ.Retain": [("true", {"retain": Retain.SET}), ("false", {})],
    "_AMQ_LVQ_NAME": [("IBM", {"conflation_key": "IBM"}), ("", {})],
    "destination-type": [("ANYCAST", {"multicast": False}), ("MULTICAST", {"multicast": True})],
    "reply-to": [("/temp-queue/a", {"temporary_reply": "/temp-queue/a"}), ("/queue/a", {}), ("", {})],
    "user-id": [("guest", {"user_id": "guest"}), ("", {"user_id": ""})],
}

# The same for a SUBSCRIBE and `NO_OPTIONS`.
SUBSCRIBED: dict[str, list[Case]] = {
    "prefetch-count": [("10", {"prefetch": 10}), ("0", {"prefetch": 0})],
    "activemq.prefetchSize": [("1", {"prefetch": 1})],
    "consumer-window-size": [
        ("10240", {"prefetch": 0, "prefetch_bytes": 10_240}),
        ("0", {"prefetch": 1}),
        ("-1", {"prefetch": 0, "prefetch_bytes": 0}),
    ],
    "credit": [
        ("5", {"prefetch": 5}),
        ("5,0", {"prefetch": 5, "prefetch_bytes": 0}),
        ("0,1024", {"prefetch": 0, "prefetch_bytes": 1_024}),
    ],
    "x-prefetch": [("3", {"prefetch": 3})],
    "selector": [("", {}), (" \n ", {})],  # others: see below
    "no-local": [("true", {"no_local": True}), ("false", {})],
    "activemq.noLocal": [("True", {"no_local": True})],
    "durable": [("true", {"durable": True}), ("false", {})],
    "persistent": [("true", {"durable": True}), ("false", {})],
    "durable-subscription-name": [
        ("mine", {"durable_name": "mine"}),
        ("", {}),
        ("x" * 255, {"durable_name": "x" * 255}),
    ],
    "durable-subscriber-name": [("mine", {"durable_name": "mine"})],
    "activemq.subscriptionName": [("my own", {"durable_name": "my own"})],
    "x-queue-name": [("ours", {"queue_name": "ours"}), ("", {})],
    "exclusive": [("true", {"exclusive": True}), ("false", {})],
    "activemq.exclusive": [("true", {"exclusive": True})],
    "x-priority": [("10", {"priority": 10}), ("-2147483648", {"priority": -(2**31)}), ("0", {})],
    "activemq.priority": [("2147483647", {"priority": 2**31 - 1})],
    "browser": [("true", {"browser": True}), ("false", {})],
    "browser-end": [("false", {"browser_end": False}), ("true", {})],
    "subscription-type": [("MULTICAST", {"multicast": True}), ("ANYCAST", {"multicast": False})],
    "destination-type": [("MULTICAST", {"multicast": True})],
    "activemq.maximumPendingMessageLimit": [("50", {"slow_messages": 50}), ("0", {}), ("-1", {})],
    "from-seq": [
        ("0", {"start": Start(Origin.FIRST)}),
        ("-1", {"start": Start(Origin.NEXT)}),
        ("7", {"start": Start(Origin.SEQ, 7)}),
        (str(2**63 - 1), {"start": Start(Origin.SEQ, 2**63 - 1)}),
    ],
    "x-stream-offset": [
        ("first", {"start": Start(Origin.FIRST, header="x-stream-offset")}),
        ("last", {"start": Start(Origin.LAST, header="x-stream-offset")}),
        ("next", {"start": Start(Origin.NEXT, header="x-stream-offset")}),
        ("offset=7", {"start": Start(Origin.SEQ, 7, header="x-stream-offset")}),
        ("offset=0", {"start": Start(Origin.FIRST, header="x-stream-offset")}),
        ("timestamp=1700000000", {"start": Start(Origin.TIME, 1_700_000_000, header="x-stream-offset")}),
    ],
    "activemq.retroactive": [("true", {"start": Start(Origin.FIRST, is_optional=True)}), ("False", {})],
    "resume": [("mine", {"resume": "mine"}), ("", {}), ("x" * 255, {"resume": "x" * 255})],
    "include-seq": [("seq", {"include_seq": "seq"}), ("", {}), ("!9;[]~", {"include_seq": "!9;[]~"})],
    "presence-info": [('{"name":"Ada"}', {"presence_info": '{"name":"Ada"}'}), ("", {})],
}

# The same for an UNSUBSCRIBE, and what it ends; nothing: it ends no durable subscription.
ENDED: dict[str, list[Case]] = {
    "durable": [("true", {"durable": True}), ("false", {})],
    "persistent": [("true", {"durable": True}), ("false", {})],
    "durable-subscription-name": [("mine", {"durable_name": "mine"}), ("", {})],
    "durable-subscriber-name": [("mine", {"durable_name": "mine"})],
    "activemq.subscriptionName": [("mine", {"durable_name": "mine"})],
    "resume": [("mine", {"resume": "mine"}), ("", {})],
}

# What a queue argument makes of empty `QueueArguments`, on both frames.
ARGUMENTS: dict[str, list[Case]] = {
    "auto-delete": [("true", {"auto_delete": True}), ("false", {"auto_delete": False})],
    "x-message-ttl": [("60000", {"time_to_live": 60.0}), ("0", {"time_to_live": 0.001})],
    "x-expires": [("1800000", {"idle_timeout": 1_800.0})],
    "x-max-length": [("1000", {"max_messages": 1_000})],
    "x-max-length-bytes": [("1048576", {"max_bytes": 1_048_576})],
    "x-dead-letter-exchange": [],  # a pair: see below
    "x-dead-letter-routing-key": [],
}

# Values that a header refuses.
WRONG: dict[str, list[str]] = {
    "priority": [
        *("high", "-1", "256", "", " 4", "4 ", "4\n", "4.0", "1_0", "1e1", "0x1", "+1", "--1", "-", "٣", "²"),
        "9" * 5_000,
    ],
    "expires": ["tomorrow", "-1", "1700000000123000", "2026-01-01"],
    "expiration": ["-1", "1m", "", f"{TEN_YEARS}001"],
    "ttl": ["-1", "soon", f"{TEN_YEARS}001"],
    "x-delay": ["soon", "", "1.5", f"{TEN_YEARS}001", f"-{TEN_YEARS}001"],
    "AMQ_SCHEDULED_DELAY": ["soon", f"{TEN_YEARS}001"],
    "AMQ_SCHEDULED_TIME": ["-1", "noon", "253402300800000"],
    "AMQ_SCHEDULED_CRON": ["*" * 201],
    "schedule-timezone": ["x" * 81],
    "AMQ_SCHEDULED_PERIOD": ["-1", "", "31536000001"],
    "AMQ_SCHEDULED_REPEAT": ["-2", "", "often", "1000000001"],
    "_AMQ_SCHED_DELIVERY": ["-1", "253402300800000"],
    "JMSXGroupID": ["x" * 1_001],
    "message_group": ["x" * 1_001],
    "_AMQ_GROUP_ID": ["x" * 1_001],
    "JMSXGroupSeq": ["", "last", "2147483648"],
    "dedup-id": ["", "x" * 1_001],
    "_AMQ_DUPL_ID": ["", "x" * 1_001],
    "retain": ["", "yes", "1", "sets", " set", "apollo", "ſet", "x" * 5_000],
    "ActiveMQ.Retain": ["", "set", "1"],
    "_AMQ_LVQ_NAME": ["x" * 1_001],
    "destination-type": ["anycast", "", "BOTH"],
    "prefetch-count": ["-5", "many", "2147483648", ""],
    "activemq.prefetchSize": ["0", "-1"],
    "consumer-window-size": ["-2", "10k"],
    "credit": ["0", "0,0", "1,2,3", "", "1,-1", "5,", ",5", "-1", "5, 1", "5,5,true", "1" * 11],
    "x-prefetch": ["-1"],
    "no-local": ["", "1", "yes"],
    "activemq.noLocal": ["1"],
    "durable": ["", "1"],
    "mandatory": ["", "1"],
    "persistent": ["", "1"],
    "durable-subscription-name": ["x" * 256],
    "durable-subscriber-name": ["x" * 256],
    "activemq.subscriptionName": ["x" * 256],
    "x-queue-name": ["x" * 256],
    "exclusive": ["", "yes"],
    "activemq.exclusive": ["1"],
    "x-priority": ["", "high", "2147483648"],
    "activemq.priority": ["-2147483649"],
    "browser": ["", "end"],
    "browser-end": ["", "no"],
    "subscription-type": ["multicast", ""],
    "activemq.maximumPendingMessageLimit": ["-2", ""],
    "from-seq": ["-2", "", "first", str(2**63), "9" * 20, " 1", "1.0"],
    "x-stream-offset": [
        *("", "FIRST", "5", "offset=", "offset=-1", "offset=x", "offset= 1", "offset=٣", "offset=" + "9" * 19),
        *("timestamp=", "timestamp=-1", "timestamp=1.5", "timestamp=now", "timestamp=" + "9" * 13, " next", "next\n"),
    ],
    "activemq.retroactive": ["", "1"],
    "resume": ["x" * 256],
    "presence-info": ["x" * 1_001],
    "include-seq": [
        *("a:b", "a\\b", "a b", "é", "x" * 256, "a\n", "\t", "\x7f"),
        *("message-id", "ack", "gap", "first-seq", "subscription", "content-length", "redelivered"),
    ],
    "auto-delete": ["", "1"],
    "x-message-ttl": ["-1", "1m"],
    "x-expires": ["0", "-1"],
    "x-max-length": ["0", "-1", "x"],
    "x-max-length-bytes": ["0", "1k", str(2**63)],
    "x-dead-letter-exchange": ["amq.headers", "AMQ.TOPIC", "my.exchange"],
    "x-dead-letter-routing-key": ["", "x" * 256],
}

# Honoured headers whose values other modules read; the table only says so.
ELSEWHERE = frozenset(
    "Authorization accept-version ack client-id content-length destination heart-beat id login message-id passcode "
    "reason receipt subscription transaction username".split()
)

Reader = Callable[[Mapping[str, str]], SendOptions | SubscribeOptions]
READERS: dict[str, Reader] = {"SEND": send_options, "SUBSCRIBE": subscribe_options}


def without_passed_on(asked: SendOptions | SubscribeOptions) -> SendOptions | SubscribeOptions:
    """What was asked, but for what subscribers see: that has tests of its own."""
    return dataclasses.replace(asked, passed_on=None) if isinstance(asked, SendOptions) else asked
