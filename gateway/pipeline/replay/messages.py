"""Messages of a replay, made of rows: columns in, columns out; nothing is read or sent here.

A message is sent as its subscribers saw it, with these differences:

* `x-replayed-from: gateway/epoch/seq` and `x-original-message-id` name its origin, and `dedup-id` and `x-dedup-id`,
  which the sink makes of the column `dedup_id`, are `<replay>:<gateway>:<epoch>:<seq>`;
* headers that controlled the first sending are left out, and those that the server sets for a delivery, `user-id`, and
  a `reply-to` with a temporary destination, because that is gone;
* `expires` is as far from now as it was from then: a message that was good for 30 seconds is so again.
"""

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from gateway.broker.headers.table import INDEX
from gateway.broker.model.destinations import HIDDEN, REPLY_QUEUE, REPLY_TOPIC, TEMPORARY, USER
from gateway.broker.model.patterns import REST, WILDCARDS, has_wildcard, pattern_words

TEMPLATE = "{destination}"  # stands in `--to` for the original destination
KEYS = ("gateway", "epoch", "seq")  # the columns that identify a row, and the order in which rows are sent
_FROM = "x-replayed-from"
_ORIGINAL = "x-original-message-id"
_EXPIRES = "expires"
# The number of a row in its partition.
_PLACE = "_place"
_NOT_COPIED = frozenset(
    [name for name, entry in INDEX["SEND"].items() if not entry.row.visible]
    + ["destination", "content-length", "content-type", "user-id", "x-dedup-id", _FROM, _ORIGINAL, _EXPIRES]
)
_GONE = (*TEMPORARY, REPLY_QUEUE, REPLY_TOPIC)
_LAST = 253_402_300_799_999  # the last moment that `expires` may name: the year 9999


def regular_expression(pattern: str) -> str:
    """A regular expression, for Java and Python, for the destinations of a pattern, with words written `/word/word`."""
    words = []
    for word in pattern_words(pattern):
        if word == REST:
            words.append("(?:/[^/]*)*")
        else:
            words.append("/[^/]*" if word in WILDCARDS else "/" + re.escape(word))
    return "".join(words)


def is_of(pattern: str) -> Column:
    """True if `destination` matches a pattern; a pattern without wildcards is one destination."""
    destination = f.col("destination")
    if not has_wildcard(pattern):
        return destination == pattern
    words = f.concat(f.lit("/"), f.translate(f.regexp_replace(destination, "^/", ""), ".", "/"))
    return f.regexp_like(words, f.lit(f"\\A(?:{regular_expression(pattern)})\\z"))


def is_partial() -> Column:
    """True if the journal kept less of the body than the message had."""
    return f.coalesce(f.octet_length("body"), f.lit(0)) < f.col("size")


def is_sendable(to: str) -> Column:
    """True if a client can send to the new destination; some destinations only the server can name."""
    if TEMPLATE not in to:
        return f.lit(True)
    name = _target(to)
    # A user's name that is written with escapes would be read as another user's.
    condition = ~(f.startswith(name, f.lit(USER)) & f.contains(name, f.lit("%")))
    for start in {*HIDDEN, *_GONE} - {USER}:
        condition &= ~f.startswith(name, f.lit(start))
    return condition


def dedup_id(replay: str) -> Column:
    """The id by which the broker recognizes a message that it has already."""
    return f.concat_ws(":", f.lit(replay), *[f.col(name) for name in KEYS])


def messages(frame: DataFrame, replay: str, to: str, rate: int = 0) -> DataFrame:
    """The columns of the messages of some rows, for the sink; `rate` a second, 0: all at once."""
    # A column of its own: inside a condition it would count only the rows that fulfil it.
    placed = frame.withColumn(_PLACE, f.monotonically_increasing_id())
    return placed.select(
        _target(to).alias("destination"),
        f.col("headers")["content-type"].alias("content_type"),
        dedup_id(replay).alias("dedup_id"),
        _headers(rate).alias("headers"),
        f.coalesce("body", f.lit(b"")).alias("body"),
    )


def _target(to: str) -> Column:
    return f.replace(f.lit(to), f.lit(TEMPLATE), f.col("destination"))


def _headers(rate: int) -> Column:
    left_out = f.array(*[f.lit(name) for name in sorted(_NOT_COPIED)])

    def is_copied(name: Column, value: Column) -> Column:
        gone = f.lit(False)
        for start in _GONE:
            gone |= f.startswith(value, f.lit(start))
        return ~f.array_contains(left_out, name) & ~((name == "reply-to") & gone)

    origin = f.concat_ws("/", *[f.col(name) for name in KEYS])
    added = f.create_map(f.lit(_FROM), origin, f.lit(_ORIGINAL), f.col("message_id"))
    return f.map_concat(f.map_filter("headers", is_copied), added, _expiry(rate))


def _expiry(rate: int) -> Column:
    """`expires`, moved by the age that the message has when it is sent; no header if there was none."""
    told = f.col("headers")[_EXPIRES]
    sent = f.unix_millis(f.current_timestamp())
    if rate:
        sent += f.floor(f.col(_PLACE) * 1000 / rate)
    moved = f.least(told.cast("bigint") - f.unix_millis("ts") + sent, f.lit(_LAST)).cast("string")
    none = f.map_from_arrays(f.array().cast("array<string>"), f.array().cast("array<string>"))
    is_one = f.regexp_like(told, f.lit(r"^[1-9]\d{0,14}$"))
    return f.when(is_one, f.create_map(f.lit(_EXPIRES), moved)).otherwise(none)
