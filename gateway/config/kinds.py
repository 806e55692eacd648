"""Kinds of values that settings have beside plain numbers and texts.

A kind is an annotated type.  The text of its ValueError stands behind the name of the setting in the error message.
`words` says what a setting allows: in the error message, and on docs/settings.md.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import EnumMeta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.fields import FieldInfo

from gateway import net
from gateway.broker.errors import NotAllowed
from gateway.broker.model.destinations import FANOUT, canonical, meant
from gateway.broker.model.patterns import check_pattern, has_wildcard
from gateway.config import toml_file
from gateway.config.values import Address, duration_in_words, parse_duration, parse_size, size_in_words
from gateway.journal import ALL, NONE

KIB = 1024
MIB = 1024 * KIB

_OTLP_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_METRIC_KINDS = ("/queue/", "/topic/", "/exchange/amq.direct/")


def _matching(pattern: str, sentence: Callable[[str], str]) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(sentence(value))
        return value

    return AfterValidator(check)


def _each(check: Callable[[str], object]) -> AfterValidator:
    """Checks each text of a list."""

    def check_all(value: list[str]) -> list[str]:
        for text in value:
            check(text)
        return value

    return AfterValidator(check_all)


def _check_network(text: str) -> None:
    try:
        if text != "unix":
            ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is no address, no network like 10.0.0.0/8, and not unix") from None


def _check_name(text: str) -> None:
    if not text or text != text.strip():
        raise ValueError(f"{text!r} is no name: it is empty, or has spaces around it")


def _check_metrics_pattern(text: str) -> None:
    if text != FANOUT and not text.startswith(_METRIC_KINDS):
        raise ValueError(f"{text!r} is no queue and no topic; did you mean {' or '.join(meant(text))}?")
    try:
        check_pattern(text, text)
        if not has_wildcard(text):
            canonical(text)
    except NotAllowed as error:
        raise ValueError(f"{text!r} is no pattern: {error.detail}") from None


def _check_events(text: str) -> str:
    if not text:
        return text
    if not text.startswith(("/queue/", "/topic/")) or has_wildcard(text):
        raise ValueError(f"{text!r} is no queue and no topic; write one like /queue/events")
    try:
        return canonical(text)
    except NotAllowed as error:
        raise ValueError(f"{text!r} is no destination: {error.detail}") from None


def _check_url_path(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("a path starts with /")
    if set(value) & set("?# "):
        raise ValueError("a path has no query, no fragment and no space")
    return value


def _check_endpoint(value: str) -> str:
    shown = re.sub(r"//[^/]*@", "//(hidden)@", value)
    if shown != value:
        raise ValueError(
            f"{shown!r} has a password in it; write the collector's credentials into the variable {_OTLP_HEADERS}"
        )
    if value and not re.fullmatch(r"https?://[^/?#\s]+/\S*", value):
        raise ValueError(
            f"{value!r} is no address of a collector; write a full one, like http://127.0.0.1:4318/v1/traces"
        )
    return value


_WORDS = {"all": ALL, "none": NONE}


def bodies(value: str) -> int:
    """Bytes of each body that the journal keeps, or `ALL` or `NONE` of `gateway.journal`; raises ValueError."""
    if value in _WORDS:
        return _WORDS[value]
    with suppress(ValueError):
        kept = parse_size(value)
        if kept >= 0:
            return kept
    raise ValueError('write "all", "none", or bytes, like "4KiB"')


def _check_bodies(value: object) -> object:
    # The text stays: it says more than the number.
    text = str(value) if isinstance(value, int) else value
    if isinstance(text, str):
        bodies(text)
    return text


def _read_place(value: object) -> object:
    if value is not None and not isinstance(value, (str, Path)):
        raise ValueError(f'a path is a text, like "folder/file", and not {value!r}')
    return value or None  # an empty variable, which a shell unsets so, would name the working directory


@dataclass(frozen=True, slots=True)
class Quantity:
    """Numbers that may be written as texts with units."""

    noun: str  # with its article
    unit: str  # of a bare number
    parse: Callable[[str], float]  # raises ValueError
    in_words: Callable[[Any], str]  # a number with a unit that suits it

    def read(self, value: object) -> object:
        """A value of the file or of a variable."""
        if isinstance(value, bool):  # a number to pydantic
            raise ValueError(f"it must be {self.noun}, not {toml_file.shown(value)}")
        return self.parse(value) if isinstance(value, str) else value


_SIZE = Quantity("a number of bytes", "bytes", parse_size, size_in_words)
_SECONDS = Quantity("a duration", "s", parse_duration, duration_in_words)
_MILLISECONDS = Quantity(
    "a duration in whole milliseconds",
    "ms",
    lambda text: parse_duration(text, "ms"),
    lambda number: duration_in_words(number / 1000),
)


def _list_of(one: str, example: str) -> FieldInfo:
    found: FieldInfo = Field(description=f'{one}, or a list of them, like ["{example}"]')
    return found


_List = BeforeValidator(toml_file.listed)


def _processes(value: object) -> object:
    """The number of processes beside the first one, for `auto`; anything else as it is."""
    return max(len(os.sched_getaffinity(0)) - 1, 1) if value == "auto" else value


Size = Annotated[int, _SIZE, BeforeValidator(_SIZE.read)]
Seconds = Annotated[float, _SECONDS, BeforeValidator(_SECONDS.read)]
Milliseconds = Annotated[int, _MILLISECONDS, BeforeValidator(_MILLISECONDS.read)]
Edges = Annotated[
    int, BeforeValidator(_processes), Field(ge=0, le=64, description='a whole number up to 64, or "auto"')
]
Addresses = Annotated[list[str], _List, _each(Address.parse), _list_of("an address", "127.0.0.1:61613")]
Origins = Annotated[
    list[str],
    _List,
    AfterValidator(lambda value: [net.listed(text) for text in value]),
    _list_of("an origin", "https://example.org"),
]
Networks = Annotated[list[str], _List, _each(_check_network), _list_of("an address or network", "10.0.0.0/8")]
Names = Annotated[list[str], _List, _each(_check_name), _list_of("a name", "ops")]
MetricsPatterns = Annotated[
    list[str], _List, _each(_check_metrics_pattern), _list_of("a name or pattern", "/queue/orders.#")
]
EventsDestination = Annotated[
    str, AfterValidator(_check_events), Field(description='a queue or topic, like "/queue/events"')
]
UrlPath = Annotated[str, AfterValidator(_check_url_path), Field(description='the path of a URL, like "/ws"')]
Endpoint = Annotated[str, AfterValidator(_check_endpoint), Field(description="a URL")]
Bodies = Annotated[
    str, BeforeValidator(_check_bodies), Field(description='"all", "none", or a number of bytes, like "4KiB"')
]
Place = Annotated[Path | None, BeforeValidator(_read_place), Field(description="the path of a file or folder")]
Store = Annotated[
    str,
    _matching(
        rf"memory|sqlite:(?!({toml_file.NO_PATH})$).+",
        lambda value: f"{value!r} is no store; write memory, or sqlite: and the path of a file, like sqlite:store.db",
    ),
    Field(description='"memory" or "sqlite:PATH"'),
]
Token = Annotated[
    str,
    _matching(r"[!-~]*", lambda _: "a token must be printable ASCII without spaces"),
    Field(description="a text of printable ASCII without spaces"),
]
Attribute = Annotated[
    str,
    _matching(
        r"(\w+(\.\w+)*:\w+)?",
        lambda value: f"{value!r} is no attribute of a module; write module:attribute, like prices.app:handlers",
    ),
    Field(description='"module:attribute"'),
]


def quantity_of(field: FieldInfo) -> Quantity | None:
    """The units of a setting; None: it has none."""
    return next((each for each in field.metadata if isinstance(each, Quantity)), None)


def words(field: FieldInfo) -> str:
    """The values that a setting allows, behind "must be"."""
    if field.description:
        return field.description
    keys = ("ge", "gt", "le", "pattern")
    found = [(key, getattr(constraint, key, None)) for constraint in field.metadata for key in keys]
    limits = {key: limit for key, limit in found if limit is not None}
    kind, quantity = field.annotation, quantity_of(field)
    if "pattern" in limits:
        return _one_of(limits["pattern"].strip("^()$").split("|"))
    if isinstance(kind, EnumMeta):
        return _one_of([member.value for member in kind])
    if kind is bool:
        return "true or false"
    if kind is int or kind is float:
        noun = quantity.noun if quantity else "a whole number" if kind is int else "a number"
        return f"{noun} {_between(limits, quantity.in_words if quantity else '{:,}'.format)}"
    return "a text"


def _one_of(choices: list[str]) -> str:
    *some, last = map(toml_file.shown, choices)
    return f"{', '.join(some)} or {last}"


def _between(limits: dict[str, Any], shown: Callable[[Any], str]) -> str:
    if "gt" in limits:
        return f"of more than {shown(limits['gt'])}, at most {shown(limits['le'])}"
    return f"from {shown(limits['ge'])} to {shown(limits['le'])}"
