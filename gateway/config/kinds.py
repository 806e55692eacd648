"""The kinds of values that settings have beside plain numbers and texts: how each is read, and what is wrong with it.

A kind is an annotated type; the sentence of its ValueError is what the operator sees behind the place of the setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from gateway.config import sizes, toml_file
from gateway.config.address import Address
from gateway.journal import ALL, NONE
from gateway.net import origins


def _matching(pattern: str, sentence: Callable[[str], str]) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(sentence(value))
        return value

    return AfterValidator(check)


def _are_addresses(value: list[str]) -> list[str]:
    for text in value:
        Address.parse(text)
    return value


def _are_origins(value: list[str]) -> list[str]:
    return [origins.listed(text) for text in value]


def _are_networks(value: list[str]) -> list[str]:
    for text in value:
        try:
            if text != "unix":
                ip_network(text)
        except ValueError:
            raise ValueError(f"{text!r} is neither an address nor a network, like 10.0.0.0/8, nor unix") from None
    return value


def _are_names(value: list[str]) -> list[str]:
    for text in value:
        if not text or text != text.strip():
            raise ValueError(f"{text!r} is no name: it is empty, or has spaces around it")
    return value


def _is_url_path(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("a path starts with /")
    if set(value) & set("?# "):
        raise ValueError("a path has no query, no fragment and no space")
    return value


_WORDS = {"all": ALL, "none": NONE}


def bodies(value: str) -> int:
    """How much of a body the journal keeps: `all`, `none`, or octets.

    Returns:
        octets, or `ALL` or `NONE` of `gateway.journal`.

    Raises:
        ValueError: it is none of these.
    """
    if value in _WORDS:
        return _WORDS[value]
    with suppress(ValueError):
        kept = sizes.parse(value)
        if kept >= 0:
            return kept
    raise ValueError('write "all", "none", or octets, like "4KiB"')


def _say_bodies(value: object) -> object:
    """The text, which says more than the number."""
    text = str(value) if isinstance(value, int) else value
    if isinstance(text, str):
        bodies(text)
    return text


_Listed = BeforeValidator(toml_file.listed)

Octets = Annotated[int, BeforeValidator(lambda value: sizes.parse(value) if isinstance(value, str) else value)]
Addresses = Annotated[list[str], NoDecode, _Listed, AfterValidator(_are_addresses)]
Origins = Annotated[list[str], NoDecode, _Listed, AfterValidator(_are_origins)]
Networks = Annotated[list[str], NoDecode, _Listed, AfterValidator(_are_networks)]
Names = Annotated[list[str], NoDecode, _Listed, AfterValidator(_are_names)]
UrlPath = Annotated[str, AfterValidator(_is_url_path)]
Bodies = Annotated[str, BeforeValidator(_say_bodies)]


def _read_place(value: object) -> object:
    if value is not None and not isinstance(value, (str, Path)):
        raise ValueError(f'a path is a text, like "folder/file", and not {value!r}')
    return value or None  # an empty variable is how a shell unsets one; it would name the working directory


Place = Annotated[Path | None, BeforeValidator(_read_place)]

Store = Annotated[
    str,
    _matching(
        r"memory|sqlite:.+",
        lambda value: f"{value!r} is no store; write memory, or sqlite:PATH with the path of a file",
    ),
]
Token = Annotated[
    str, _matching(r"[!-~]*", lambda _: "a token is printable ASCII without spaces, or no client could send it")
]
Attribute = Annotated[
    str,
    _matching(
        r"(\w+(\.\w+)*:\w+)?",
        lambda value: f"{value!r} is no attribute of a module; write module:attribute, like prices.app:handlers",
    ),
]
