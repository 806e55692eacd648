"""Policies: the `[[policy]]` tables of the settings file, and their checks.

    [[policy]]
    match = "/queue/orders.*"        # a pattern, or a list of patterns
    max_attempts = 5                 # any key of `gateway.broker.model.policy.Policy`

`read_tables` checks values that were read already.  Each key has one rule in `KEY_RULES`, in words and as a function.
Each table is checked alone, without other tables for the same destination, so that one table shows its own errors.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeGuard

from gateway.broker.errors import NotAllowed
from gateway.broker.model import destinations
from gateway.broker.model.destinations import (
    DIRECT,
    FANOUT,
    HANDLERS,
    QUEUE,
    REPLY_QUEUE,
    REPLY_TOPIC,
    TOPIC,
    USER,
    canonical,
    is_fanout,
    is_topic,
    lacks_slash,
)
from gateway.broker.model.patterns import WILDCARDS, split
from gateway.broker.model.policy import DEFAULT, Kept, LateAck, OnNack, SlowConsumerAction, Visible, WhenFull
from gateway.config.kinds import bodies
from gateway.config.schemas import JsonSchema, SchemaError
from gateway.config.toml_file import TableError, read_each, shown, unknown
from gateway.config.values import parse_duration, parse_size

TEN_YEARS = 315_360_000  # seconds. A longer time is most likely a mistake of units.

KINDS = (QUEUE, TOPIC, DIRECT, USER, REPLY_QUEUE, REPLY_TOPIC, HANDLERS)
"""Starts of patterns: the kinds of names under which the broker keeps messages or subscribers.  `FANOUT` is one name
without a kind."""

_MEANT = {
    "/temp-queue/": REPLY_QUEUE,
    "/temp-topic/": REPLY_TOPIC,
    "/amq/queue/": QUEUE,
    "/exchange/amq.topic/": TOPIC,
    "/app/": f"{HANDLERS}send/",
}
"""Kinds that clients write, and the kinds of the broker that they mean; a name without a kind is a queue."""

FOR_QUEUES = frozenset({"max_messages", "max_bytes", "when_full", "auto_delete"})
FOR_TOPICS = frozenset(
    "slow_consumer slow_messages subscriptions_keep log_messages log_bytes log_age presence presence_grace".split()
)


class PolicyError(TableError):
    kind = "policy"


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """One `[[policy]]` table that is right: its patterns, and its other keys as `Policy` holds them."""

    match: tuple[str, ...]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """The values that a key allows."""

    words: str  # behind "must be"
    read: Callable[[Any], Any]  # the value as `Policy` holds it; ValueError or NotAllowed if it is wrong


def _is_whole(value: object) -> TypeGuard[int]:
    # True is an int to isinstance, but not to the operator.
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(words: str, least: int, most: float = float("inf")) -> KeyRule:
    def read(value: object) -> int:
        if not _is_whole(value) or not least <= value <= most:
            raise ValueError
        return value

    return KeyRule(words, read)


def _number(words: str, least: int, most: int) -> KeyRule:
    def read(value: object) -> float:
        if not (isinstance(value, float) or _is_whole(value)) or not least <= value <= most:
            raise ValueError
        return float(value)

    return KeyRule(words, read)


def _one_of(kind: type[Enum]) -> KeyRule:
    *some, last = [json.dumps(member.value) for member in kind]
    return KeyRule(f"{', '.join(some)} or {last}", kind)


def _read_size(value: object) -> int:
    if isinstance(value, str):
        value = parse_size(value)
    if not _is_whole(value) or value < 0 or 0 < value < 1024:
        raise ValueError
    return value


def _read_duration(value: object) -> object:
    return _UP_TO_TEN_YEARS.read(parse_duration(value) if isinstance(value, str) else value)


def _read_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _read_bodies(value: object) -> str:
    text = str(value) if _is_whole(value) else value
    if not isinstance(text, str):
        raise ValueError
    bodies(text)
    return text


def _read_header_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[^\s:\x00-\x1f\x7f]*", value):
        raise ValueError
    return value


def _read_destination(value: object) -> str:
    # A comma would make it the name of several destinations, or of one that no client can name.
    if not isinstance(value, str) or "," in value:
        raise ValueError
    name = canonical(value) if value else ""
    if name and not name.startswith((QUEUE, TOPIC)):
        raise ValueError
    return name


def _read_schema(value: object) -> JsonSchema | None:
    if not isinstance(value, str):
        raise ValueError
    return JsonSchema(Path(value)) if value else None


_UP_TO_TEN_YEARS = _number("", 0, TEN_YEARS)
_SECONDS = KeyRule('a duration from 0 to ten years, like 10 (seconds), "10s" or "7 days"', _read_duration)
_SWITCH = KeyRule("true or false", _read_switch)
_SIZE = KeyRule('0, or at least 1,024 (bytes; units like "64KiB" are allowed)', _read_size)

KEY_RULES: Mapping[str, KeyRule] = {
    "max_messages": _whole("a whole number, 0 or more", 0),
    "max_bytes": _SIZE,
    "when_full": _one_of(WhenFull),
    "max_attempts": _whole("a whole number between 0 and 1,000,000", 0, 1_000_000),
    "backoff": _SECONDS,
    "backoff_factor": _number("between 1 and 100", 1, 100),
    "backoff_max": _SECONDS,
    "dead_letter": KeyRule("the name of one queue or topic without wildcards, or empty", _read_destination),
    "dead_letter_expired": _SWITCH,
    "ack_timeout": _SECONDS,
    "late_ack": _one_of(LateAck),
    "time_to_live": _SECONDS,
    "on_nack": _one_of(OnNack),
    "slow_consumer": _one_of(SlowConsumerAction),
    "slow_messages": _whole("a whole number between 1 and 1,000,000", 1, 1_000_000),
    "conflate_by": KeyRule("the name of a header, without spaces and colons, or empty", _read_header_name),
    "auto_delete": _SWITCH,
    "idle_timeout": _SECONDS,
    "durable": _SWITCH,
    "subscriptions_keep": _one_of(Kept),
    "visible": _one_of(Visible),
    "log_messages": _whole("a whole number between 0 and 100,000,000", 0, 100_000_000),
    "log_bytes": _SIZE,
    "log_age": _SECONDS,
    "journal_bodies": KeyRule('"all", "none", or bytes from the start of a body, like "4KiB"', _read_bodies),
    "add_user_id": _SWITCH,
    "schema": KeyRule("the name of a file with a JSON Schema, or empty", _read_schema),
    "presence": _SWITCH,
    "presence_grace": _SECONDS,
}


def read_tables(value: object, settings: Collection[str] = ()) -> tuple[PolicyTable, ...]:
    """Check the file's value of `policy`; raises PolicyError, the first error of the first wrong table."""
    return read_each(value, PolicyError, "policies", lambda table: _read_table(table, settings))


def _read_table(table: Mapping[str, object], settings: Collection[str]) -> PolicyTable:
    match = _read_match(table, settings)
    try:
        _refuse_unknown(table, settings)
        values = {key: _read_value(key, value) for key, value in table.items() if key != "match"}
        for key, reason in _misfits(match, values):
            raise PolicyError(reason, key)
    except PolicyError as error:
        error.match = match
        raise
    return PolicyTable(match, values)


def _read_match(table: Mapping[str, object], settings: Collection[str]) -> tuple[str, ...]:
    if "match" not in table:
        _refuse_unknown(table, settings)
        raise PolicyError('match is missing; write the destinations of the policy, like match = "/queue/orders.*"')
    match = table["match"]
    patterns = [match] if isinstance(match, str) else match
    if not isinstance(patterns, (list, tuple)) or not patterns:
        raise PolicyError(f"match must be a pattern, or a list of patterns, not {shown(match)}", "match")
    for pattern in patterns:
        reason = _refuse_pattern(pattern)
        if reason:
            raise PolicyError(f"match: {shown(pattern)} {reason}", "match")
    return tuple(patterns)


def _refuse_pattern(pattern: object) -> str:
    """Why that is no pattern, or one that no name can match; empty: it is fine."""
    if not isinstance(pattern, str):
        return "is not a pattern; a pattern is a string"
    if is_fanout(pattern):
        return "" if pattern == FANOUT else _named(FANOUT)
    if not any(pattern.startswith(kind) and len(pattern) > len(kind) for kind in KINDS):
        return _refuse_kind(pattern)
    for word in split(pattern):
        if "*" in word and word not in WILDCARDS:
            return f"has a wildcard inside the word {shown(word)}; it must be a whole word between dots or slashes"
    return ""


def _named(name: str) -> str:
    return f"is a name for clients, and policies need the server's name: write {shown(name)}"


def _refuse_kind(pattern: str) -> str:
    kind = next((kind for kind in _MEANT if pattern.startswith(kind)), "")
    meant, name = _MEANT.get(kind, QUEUE), pattern.removeprefix(kind)
    if meant in (REPLY_QUEUE, REPLY_TOPIC):
        name = "#"
    if lacks_slash(pattern) or lacks_slash(pattern.replace(".", "/", 1)):
        return f"has no slash in front; {_did_you_mean(pattern)} The queue is {shown(QUEUE + pattern)}"
    if name and not name.startswith("/"):
        return _named(meant + name)
    return f"is of no kind that has policies; {_did_you_mean(pattern)}"


def _did_you_mean(name: str) -> str:
    found = [_server_name(each) for each in destinations.meant(name)]
    return f"did you mean {' or '.join(map(shown, found))}?"


def _server_name(name: str) -> str:
    """A name of a client as policies have it."""
    kind = next((kind for kind in _MEANT if name.startswith(kind)), "")
    return _MEANT[kind] + name.removeprefix(kind) if kind else name


def _refuse_unknown(table: Mapping[str, object], settings: Collection[str]) -> None:
    known = ["match", *KEY_RULES]
    for key in table:
        if key not in known:
            raise PolicyError(unknown(key, PolicyError.kind, known, settings), key)


def _read_value(key: str, value: object) -> object:
    rule = KEY_RULES[key]
    try:
        return rule.read(value)
    except SchemaError as error:
        raise PolicyError(f"{key}: {shown(value)} {error}", key) from None
    except (ValueError, NotAllowed) as error:
        hint = (
            f"; {_did_you_mean(str(value))}" if isinstance(error, NotAllowed) and "did you mean" in error.detail else ""
        )
        raise PolicyError(f"{key} must be {rule.words}, not {shown(value)}{hint}", key) from None


def _misfits(match: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Values of a table that contradict each other: the key to point at, and why."""
    for pattern in match:
        topic = is_topic(pattern)
        kinds = "queues, not for topics" if topic else "topics, not for queues"
        for key in values:
            if key in (FOR_QUEUES if topic else FOR_TOPICS):
                yield key, f"{key} is for {kinds} like {shown(pattern)}"
            elif key.startswith("log_") and pattern.startswith(REPLY_TOPIC):
                yield key, f"{key} is not for temporary topics like {shown(pattern)}: they have no stream"
            elif key.startswith("presence") and not pattern.startswith(TOPIC):
                yield key, f"{key} is for topics like {shown(TOPIC + 'rooms.*')}, not for {shown(pattern)}"
    if values.get("slow_consumer") is SlowConsumerAction.CONFLATE and not values.get("conflate_by"):
        yield "slow_consumer", 'slow_consumer = "conflate" needs conflate_by in the same table'
    full = values.get("when_full", WhenFull.BLOCK)
    if full is not WhenFull.BLOCK and not (values.get("max_messages") or values.get("max_bytes")):
        yield "when_full", f'when_full = "{full.value}" needs max_messages or max_bytes in the same table'
    longest = values.get("backoff_max", DEFAULT.backoff_max)
    if values.get("backoff", 0) > longest:
        default = "" if "backoff_max" in values else ", the default; set backoff_max in the same table, too"
        yield "backoff", f"backoff is more than backoff_max, which is {longest:g}{default}"
    yield from _misfits_of_dead_letters(match, values)


def _misfits_of_dead_letters(match: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    target = values.get("dead_letter")
    if target == "":
        senders = {"when_full": WhenFull.DEAD_LETTER, "on_nack": OnNack.DEAD_LETTER, "dead_letter_expired": True}
        for key, value in senders.items():
            if values.get(key) is value:
                yield key, f'{key} makes dead letters, but dead_letter = "" in the same table drops them'
    elif target in match:  # neither has a wildcard
        yield "dead_letter", f"dead_letter must be another destination than {shown(target)} itself"
