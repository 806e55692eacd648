"""Policy tables: what they may say, what is refused in which words, and on which line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.model.policy import DEFAULT, Kept, LateAck, OnNack, Policy, SlowConsumerAction, Visible, WhenFull
from gateway.config.policies import KEY_RULES, KINDS, read_tables
from gateway.config.settings import SettingsError, load
from gateway.runtime.gateway import policies_of


def write(text: str) -> None:
    Path("gateway.toml").write_text(text, encoding="utf-8")


def found(name: str) -> Policy:
    return policies_of(load()).find(name)


def refused(**overrides: Any) -> str:
    with pytest.raises(SettingsError) as refusal:
        load(**overrides)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


EVERY_KEY_OF_QUEUES = {
    "max_messages": (10, 10),
    "max_bytes": (1024, 1024),
    "when_full": ("dead-letter", WhenFull.DEAD_LETTER),
    "max_attempts": (0, 0),
    "backoff": (1, 1.0),
    "backoff_factor": (1.5, 1.5),
    "backoff_max": (2, 2.0),
    "dead_letter": ("failed", "/queue/failed"),
    "dead_letter_expired": (True, True),
    "ack_timeout": ("5 minutes", 300.0),
    "late_ack": ("error", LateAck.ERROR),
    "time_to_live": ("520 weeks", 314_496_000.0),
    "on_nack": ("drop", OnNack.DROP),
    "conflate_by": ("symbol", "symbol"),
    "auto_delete": (True, True),
    "idle_timeout": ("500 ms", 0.5),
    "durable": (True, True),
    "visible": ("stored", Visible.STORED),
    "journal_bodies": (4096, "4096"),
    "add_user_id": (True, True),
    "schema": ("", None),
}
EVERY_KEY_OF_TOPICS = {
    "slow_consumer": ("conflate", SlowConsumerAction.CONFLATE),
    "slow_messages": (7, 7),
    "subscriptions_keep": ("as-sent", Kept.AS_SENT),
    "conflate_by": ("symbol", "symbol"),
    "idle_timeout": (0.5, 0.5),
    "log_messages": (100_000_000, 100_000_000),
    "log_bytes": ("64KiB", 65_536),
    "log_age": (86_400, 86_400.0),
    "journal_bodies": ("none", "none"),
    "add_user_id": (True, True),
    "schema": ("", None),
    "presence": (True, True),
    "presence_grace": ("1 minute", 60.0),
}


class TestReading:
    def test_there_is_a_rule_for_each_key_and_no_other(self) -> None:
        keys = {field.name for field in dataclasses.fields(Policy)}
        assert set(KEY_RULES) == keys
        assert set(EVERY_KEY_OF_QUEUES) | set(EVERY_KEY_OF_TOPICS) == keys

    @pytest.mark.parametrize(
        ("match", "keys"),
        [("/queue/a", EVERY_KEY_OF_QUEUES), ("/topic/a", EVERY_KEY_OF_TOPICS)],
        ids=["queue", "topic"],
    )
    def test_every_key(self, match: str, keys: dict[str, tuple[object, object]]) -> None:
        (table,) = read_tables([{"match": match} | {key: written for key, (written, _) in keys.items()}])
        assert table.match == (match,)
        assert table.values == {key: read for key, (_, read) in keys.items()}
        assert [type(value) for value in table.values.values()] == [type(read) for _, read in keys.values()]

    def test_merging_in_the_order_of_the_file(self) -> None:
        assert found("/queue/a") == DEFAULT
        write(
            """
            [[policy]]
            match = ["/queue/#", "/topic/#"]
            max_attempts = 1
            backoff = 2
            [[policy]]
            match = "/queue/mail.*"
            max_attempts = 3
            [[policy]]
            match = "/queue/mail.out"
            backoff = 4
            max_bytes = "64 KiB"
            [[policy]]
            match = "/queue/*.out"
            time_to_live = 5
            max_attempts = 6
            """
        )
        assert found("/queue/a") == found("/topic/x/y") == Policy(max_attempts=1, backoff=2)
        assert found("/queue/mail.in") == Policy(max_attempts=3, backoff=2)
        assert found("/queue/mail.out") == Policy(max_attempts=6, backoff=4, max_bytes=65_536, time_to_live=5)
        assert found("/queue/dlq.a") == Policy(max_attempts=0, backoff=2)
        for kind in KINDS:
            assert (
                policies_of(load(policy=[{"match": f"{kind}#", "max_attempts": 1}])).find(f"{kind}a").max_attempts == 1
            )


SECONDS = 'must be a duration from 0 to ten years, like 10 (seconds), "10s" or "7 days", not'
OCTETS = 'max_bytes must be 0, or at least 1,024 (bytes; units like "64KiB" are allowed), not'
NO_TARGET = "dead_letter must be the name of one queue or topic without wildcards, or empty, not"
WRONG_VALUES = [
    ("max_messages = -1", "max_messages must be a whole number, 0 or more, not -1"),
    ("max_messages = true", "max_messages must be a whole number, 0 or more, not true"),
    ("max_bytes = 1023", f"{OCTETS} 1023"),
    ("max_bytes = 2048.0", f"{OCTETS} 2048.0"),
    ("max_bytes = '1K'", f'{OCTETS} "1K"'),
    ("when_full = 'drop'", 'when_full must be "block", "drop-oldest", "drop-newest" or "dead-letter", not "drop"'),
    ("on_nack = 1", 'on_nack must be "redeliver", "dead-letter" or "drop", not 1'),
    ("max_attempts = 1_000_001", "max_attempts must be a whole number between 0 and 1,000,000, not 1000001"),
    ("backoff = -1", f"backoff {SECONDS} -1"),
    ("backoff = nan", f"backoff {SECONDS} NaN"),
    ("backoff = '1 parsec'", f'backoff {SECONDS} "1 parsec"'),
    ("backoff_max = 1979-05-27", f'backoff_max {SECONDS} "1979-05-27"'),
    ("backoff_factor = 0.9", "backoff_factor must be between 1 and 100, not 0.9"),
    ("idle_timeout = {a = 1}", f'idle_timeout {SECONDS} {{"a": 1}}'),
    ("auto_delete = 1", "auto_delete must be true or false, not 1"),
    ("conflate_by = 'a b'", 'conflate_by must be the name of a header, without spaces and colons, or empty, not "a b"'),
    ("max_mesages = 1", 'there is no key "max_mesages"; did you mean max_messages?'),
    ("retries = 1", 'there is no key "retries"; did you mean max_attempts?'),
    (
        "dead_letter = '/quue/a'",
        f'{NO_TARGET} "/quue/a"; did you mean "/queue/a"?',
    ),
    ("colour = 1", 'there is no key "colour"; docs/policies.md names them all'),
    ("max_body = 2048", "max_body is a setting and no key of a policy; write it above the first [[policy]]"),
    ("slow_messages = 1", 'slow_messages is for topics, not for queues like "/queue/orders.*"'),
    ("when_full = 'drop-oldest'", 'when_full = "drop-oldest" needs max_messages or max_bytes in the same table'),
    (
        "backoff = 61",
        "backoff is more than backoff_max, which is 60, the default; set backoff_max in the same table, too",
    ),
    *(
        (
            f"dead_letter = {value!r}",
            f"{NO_TARGET} {json.dumps(value)}",
        )
        for value in ("/queue/", "/app/a", "/queue/a.*", "/temp-queue/a", "/queue/a,/queue/b", 3)
    ),
]
MISFITS = [
    ('"/queue/a"', ["max_bytes = 0", "when_full = 'drop-newest'"], 'when_full = "drop-newest" needs max_messages'),
    ('"/queue/a"', ["backoff_max = 2", "backoff = 2.5"], "backoff is more than backoff_max, which is 2"),
    ('"/queue/a"', ["dead_letter = ''", "on_nack = 'dead-letter'"], "on_nack makes dead letters, but dead_letter ="),
    (
        '"/queue/a"',
        ["max_messages = 1", "dead_letter = ''", "when_full = 'dead-letter'"],
        "when_full makes dead letters, but",
    ),
    ('"/queue/a"', ["dead_letter = '/queue/a'"], 'dead_letter must be another destination than "/queue/a" itself'),
    ('["/queue/b", "/queue/a"]', ["dead_letter = 'a'"], 'dead_letter must be another destination than "/queue/a"'),
    ('"/topic/a"', ["slow_consumer = 'conflate'"], 'slow_consumer = "conflate" needs conflate_by in the same table'),
    ('"/topic/a"', ["slow_messages = 0"], "slow_messages must be a whole number between 1 and 1,000,000, not 0"),
    ('["/queue/a", "/user/#"]', ["max_messages = 1"], 'max_messages is for queues, not for topics like "/user/#"'),
    *(
        (f'"{kind}a"', [f"{key} = {value}"], f'{key} is for queues, not for topics like "{kind}a"')
        for key, value in [("max_messages", 1), ("auto_delete", "true")]
        for kind in ("/topic/", "/reply-topic/")
    ),
    ('"/reply-queue/#"', ["slow_messages = 1"], 'slow_messages is for topics, not for queues like "/reply-queue/#"'),
]
TOGETHER = [
    ('"/queue/a"', ["dead_letter = ''", "on_nack = 'drop'", "max_messages = 1", "when_full = 'drop-oldest'"]),
    ('"/queue/a"', ["backoff = 100", "backoff_max = 100"]),
    ('"/queue/a"', ["dead_letter = '/topic/a'", "dead_letter_expired = true"]),
    ('"/topic/a"', ["dead_letter = '/queue/a'", "conflate_by = 'k'", "slow_consumer = 'drop-oldest'"]),
    ('["/queue/a", "/topic/a"]', ["conflate_by = ''", "time_to_live = 0"]),
    ('"/exchange/amq.fanout"', ["log_messages = 10", "time_to_live = 1"]),
]
NO_KIND = "is of no kind that has policies; did you mean"
MEANT = "is a name for clients, and policies need the server's name"
NO_WORD = "it must be a whole word between dots or slashes"
WRONG_MATCHES = [
    ("match = 1", "match must be a pattern, or a list of patterns, not 1"),
    *(
        (
            f'match = "{name}"',
            f'match: "{name}" has no slash in front; did you mean "/topic/a"? The queue is "/queue/{name}"',
        )
        for name in ("topic/a", "topic.a")
    ),
    ("match = []", "match must be a pattern, or a list of patterns, not []"),
    ('match = ["/queue/a", 1]', "match: 1 is not a pattern; a pattern is a string"),
    *(
        (f'match = ["{pattern}"]', f'match: "{pattern}" {NO_KIND} {meant}?')
        for pattern, meant in [
            ("", '"/queue/NAME" or "/topic/NAME"'),
            ("/orders", '"/queue/orders" or "/topic/orders"'),
            ("/queu/x", '"/queue/x"'),
            ("/amq/x", '"/queue/x"'),
            ("/app/", '"/handlers/send/NAME"'),
            ("/exchange/mine/x", '"/topic/x"'),
        ]
    ),
    *(
        (f'match = "{pattern}"', f'match: "{pattern}" {MEANT}: write "{meant}"')
        for pattern, meant in [
            ("/temp-queue/#", "/reply-queue/#"),
            ("/temp-topic/a.b", "/reply-topic/#"),
            ("/exchange/amq.topic/a/b", "/topic/a/b"),
            ("/exchange/amq.fanout/a", "/exchange/amq.fanout"),
            ("/app/orders.#", "/handlers/send/orders.#"),
            ("orders", "/queue/orders"),
            ("#", "/queue/#"),
        ]
    ),
    *(
        (f'match = "{pattern}"', f'match: "{pattern}" has a wildcard inside the word "{word}"; {NO_WORD}')
        for pattern, word in (("/queue/orders*", "orders*"), ("/topic/a.*b/c", "*b"), ("/queue/***", "***"))
    ),
]

# Each is looked at alone.
TWO_KEYS = ("max_messages = 1", "when_full = 'drop-oldest'")
TWO_TABLES = "\n".join(f"[[policy]]\nmatch = '/queue/a'\n{key}" for key in TWO_KEYS)


class TestRefusals:
    @pytest.mark.parametrize(("line", "reason"), WRONG_VALUES, ids=[line for line, _ in WRONG_VALUES])
    def test_of_one_key(self, line: str, reason: str) -> None:
        write(f'max_headers = 20\n\n[[policy]]\nmatch = "/queue/orders.*"\n\n{line}\n')
        assert refused() == f'gateway.toml line 6: policy for "/queue/orders.*": {reason}'

    @pytest.mark.parametrize(("match", "lines", "reason"), MISFITS, ids=[f"{row[0]}: {row[1]}" for row in MISFITS])
    def test_of_keys_together(self, match: str, lines: list[str], reason: str) -> None:
        write("\n".join(["[[policy]]", *lines, f"match = {match}"]))
        # It is the last of these lines that each row is about.
        place = f"gateway.toml line {len(lines) + 1}: policy for {match.strip('[]')}: "
        assert refused().startswith(place + reason)

    @pytest.mark.parametrize(("match", "lines"), TOGETHER, ids=[f"{match}: {lines}" for match, lines in TOGETHER])
    def test_of_no_others(self, match: str, lines: list[str]) -> None:
        write("\n".join(["[[policy]]", f"match = {match}", *lines]))
        assert len(load().policy[0].values) == len(lines)

    @pytest.mark.parametrize(("line", "reason"), WRONG_MATCHES, ids=[line for line, _ in WRONG_MATCHES])
    def test_of_patterns(self, line: str, reason: str) -> None:
        write(f'[[policy]]\nmatch = "/queue/a"\n\n[[policy]]\nbackoff = -1\n{line}\n')
        assert refused().startswith(f"gateway.toml line 6: policy 2: {reason}")

    @pytest.mark.parametrize(
        ("text", "line", "sentence"),
        [
            ("[policy]\nmatch = '/queue/a'", 1, "each policy is a table in double brackets: write [[policy]]"),
            ("[policy.a]", 1, "each policy is a table in double brackets: write [[policy]]"),
            ("policy = '[[policy]]'", 1, 'policies are [[policy]] tables of the settings file, not "[[policy]]"'),
            ("policy = [{match = '/queue/a'}, 1]", 1, "policy 2: a policy is a table, not 1"),
            ("[[policy]]\nqueue = '/queue/a'", 2, 'policy 1: there is no key "queue"; did you mean match?'),
            ("[[policy]]\nbackoff = 1", 1, "policy 1: match is missing; write the destinations of the policy, like"),
            (TWO_TABLES, 6, 'policy for "/queue/a": when_full = "drop-oldest" needs max_messages'),
        ],
    )
    def test_of_tables(self, text: str, line: int, sentence: str) -> None:
        write(text)
        assert refused().startswith(f"gateway.toml line {line}: {sentence}")

    def test_many_patterns_and_long_values_are_cut(self) -> None:
        patterns = [f"/queue/{name}" for name in "abcde"]
        write(f"[[policy]]\nmatch = {json.dumps(patterns)}\nbackoff = '{'x' * 1000}'\n")
        sentence = refused()
        assert 'line 3: policy for "/queue/a", "/queue/b", "/queue/c" and 2 more: backoff' in sentence
        assert sentence.endswith('not "' + "x" * 76 + "...")

    def test_arguments_have_no_line(self) -> None:
        write("[[policy]]\nmatch = '/queue/a'\nbackoff = 1\n")
        assert (
            refused(policy=[{"match": "/queue/b", "backoff": -1}]) == f'policy 1 for "/queue/b": backoff {SECONDS} -1'
        )
        assert refused(policy="x") == 'policies are [[policy]] tables of the settings file, not "x"'
