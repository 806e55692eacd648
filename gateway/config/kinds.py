"""Kinds of values that settings have beside plain numbers and texts.

A kind is an annotated type.  The text of its ValueError stands behind the name of the setting in the error message.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from gateway import net
from gateway.broker.errors import NotAllowed
from gateway.broker.model.destinations import FANOUT, canonical
from gateway.broker.model.patterns import check_pattern, has_wildcard
from gateway.config import toml_file
from gateway.config.values import Address, parse_size
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
        raise ValueError(f"{text!r} is no queue and no topic; write a full name, like /queue/orders or /queue/orders.#")
    try:
        check_pattern(text, text)
        if not has_wildcard(text):
            canonical(text)
    except NotAllowed as error:
        raise ValueError(f"{text!r} is no pattern: {error.detail}") from None


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


_List = BeforeValidator(toml_file.listed)

Size = Annotated[int, BeforeValidator(lambda value: parse_size(value) if isinstance(value, str) else value)]
Addresses = Annotated[list[str], NoDecode, _List, _each(Address.parse)]
Origins = Annotated[list[str], NoDecode, _List, AfterValidator(lambda value: [net.listed(text) for text in value])]
Networks = Annotated[list[str], NoDecode, _List, _each(_check_network)]
Names = Annotated[list[str], NoDecode, _List, _each(_check_name)]
MetricsPatterns = Annotated[list[str], NoDecode, _List, _each(_check_metrics_pattern)]
UrlPath = Annotated[str, AfterValidator(_check_url_path)]
Endpoint = Annotated[str, AfterValidator(_check_endpoint)]
Bodies = Annotated[str, BeforeValidator(_check_bodies)]
Place = Annotated[Path | None, BeforeValidator(_read_place)]
Store = Annotated[
    str,
    _matching(
        r"memory|sqlite:.+",
        lambda value: f"{value!r} is no store; write memory, or sqlite:PATH with the path of a file",
    ),
]
Token = Annotated[str, _matching(r"[!-~]*", lambda _: "a token must be printable ASCII without spaces")]
Attribute = Annotated[
    str,
    _matching(
        r"(\w+(\.\w+)*:\w+)?",
        lambda value: f"{value!r} is no attribute of a module; write module:attribute, like prices.app:handlers",
    ),
]
