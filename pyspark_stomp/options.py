"""The options of `format("stomp")`: one table, from which text becomes checked values.

Spark hands options over as text under names in any letter case.  A name that is not in the table is refused, with the
most similar one: a misspelt `maxRowsPerTrigger` would otherwise have no effect.

Options that depend on others are checked where they are used: a sink needs no `spoolDir`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from gateway.client import StompServer
from gateway.codec import VERSIONS

from .errors import OptionError

_SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MOST = 2**53
# Spark's own options of a query, which it hands on with the others.
_SPARKS = frozenset({"checkpointlocation", "queryname"})
_MOST_BYTES = 1024**3  # below the limit of an Arrow column of bytes, 2 GiB


def _text(value: str) -> str:
    if "\n" in value or "\r" in value or "\0" in value:
        raise ValueError("must be one line")
    return value


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return value.lower() == "true"


def _integer(least: int, most: int = _MOST) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(value)

    return parse


def _size(value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    if found is None or not 0 < (size := int(found[1]) * _FACTORS[found[2].lower()]) <= _MOST_BYTES:
        raise ValueError("must be a number of bytes up to 1GiB, like 67108864 or 64MiB")
    return size


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in words:
            raise ValueError("must be one of " + ", ".join(words))
        return value

    return parse


def _destinations(value: str) -> tuple[str, ...]:
    names = tuple([name.strip() for name in _text(value).split(",")])
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("must be one destination, or several different ones between commas")
    return names


def _versions(value: str) -> str:
    known = [version.name for version in VERSIONS]
    names = [name.strip() for name in value.split(",")]
    if not set(names) <= set(known):
        raise ValueError("must be one or several of " + ", ".join(known))
    return ",".join(names)


def _headers(value: str) -> dict[str, str]:
    try:
        told = json.loads(value)
    except ValueError:
        told = None
    if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
        raise ValueError('must be a JSON object of strings, like {"durable": "true"}')
    return {_text(name): _text(text) for name, text in told.items()}


def _starting(value: str) -> str | dict[str, int]:
    if value in ("earliest", "latest"):
        return value
    try:
        told = json.loads(value)
    except ValueError:
        told = None
    if not isinstance(told, dict) or not all(type(seq) is int and seq >= 0 for seq in told.values()):
        raise ValueError('must be earliest, latest or a JSON object like {"/topic/a": 17}')
    return told


def _row(name: str, parse: Callable[[str], Any], default: Any = MISSING, factory: Any = MISSING) -> Any:
    """One option: its name in Spark, its parser, its default."""
    metadata = {"option": name, "parse": parse}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata, repr=name != "passcode")


@dataclass(frozen=True)
class Options:
    """All options, checked one by one.

    Times are in milliseconds, sizes in bytes.  0 of a time limit means none where it says so below.
    """

    # ruff: noqa: RUF009  # each row calls `field`, by way of `_row`
    # The connection.
    host: str = _row("host", _text, "localhost")
    port: int = _row("port", _integer(1, 65_535), 61_613)
    ssl: bool = _row("ssl", _boolean, False)
    ssl_ca: str = _row("sslCa", _text, "")  # a file of certificates to trust instead of the system's
    login: str = _row("login", _text, "")
    passcode: str = _row("passcode", _text, "")
    passcode_env: str = _row("passcodeEnv", _text, "")  # the environment variable that holds it, on each node
    vhost: str = _row("vhost", _text, "")
    version: str = _row("version", _versions, "1.0,1.1,1.2")
    heartbeat: int = _row("heartbeat", _integer(0, 3_600_000), 10_000)  # 0: none
    connect_headers: dict[str, str] = _row("connectHeaders", _headers, factory=dict)
    connect_timeout: int = _row("connectTimeoutMs", _integer(1), 10_000)
    max_reconnect: int = _row("maxReconnectMs", _integer(0), 60_000)  # 0: the first failure counts
    receipt_timeout: int = _row("receiptTimeoutMs", _integer(1), 60_000)
    # Reading.
    destination: tuple[str, ...] = _row("destination", _destinations, ())
    selector: str = _row("selector", _text, "")
    subscribe_headers: dict[str, str] = _row("subscribeHeaders", _headers, factory=dict)
    mode: str = _row("mode", _one_of("spool", "ack", "offset"), "spool")
    spool_dir: str = _row("spoolDir", _text, "")
    max_spool: int = _row("maxSpoolBytes", _size, _MOST_BYTES)  # beyond that the connector stops reading
    shared_spool: bool = _row("sharedSpool", _boolean, False)  # executors read the segments' files themselves
    dedup_header: str = _row("dedupHeader", _text, "")  # instead of message-id, to know a message again
    ack_mode: str = _row("ackMode", _one_of("client-individual", "client"), "client-individual")
    max_rows: int = _row("maxRowsPerTrigger", _integer(1), 100_000)
    max_bytes: int = _row("maxBytesPerTrigger", _size, 64 * 1024**2)
    prefetch_count: int = _row("prefetch", _integer(0, 10_000_000), 0)  # 0: by the mode
    partitions: int = _row("numPartitions", _integer(1, 10_000), 4)
    idle_timeout: int = _row("idleTimeoutMs", _integer(1), 2_000)
    include_body: bool = _row("includeBody", _boolean, True)
    starting: str | dict[str, int] = _row("startingOffsets", _starting, "earliest")
    fail_on_data_loss: bool = _row("failOnDataLoss", _boolean, True)
    ack: bool = _row("ack", _boolean, False)  # batch: consume what is read
    browser: str = _row("browser", _one_of("auto", "true", "false"), "auto")
    # Writing.
    send_headers: dict[str, str] = _row("sendHeaders", _headers, factory=dict)
    content_type: str = _row("contentType", _text, "")
    dedup_column: str = _row("dedupColumn", _text, "")
    transaction_bytes: int = _row("transactionOctets", _size, 4 * 1024**2)
    transaction_rows: int = _row("transactionRows", _integer(1), 5_000)
    max_rate: int = _row("maxRowsPerSecond", _integer(0), 0)  # of one task; 0: as fast as the server takes them

    @classmethod
    def of(cls, told: Mapping[str, str]) -> Options:
        """Read the options of a query.  `OptionError`: one is unknown or wrong."""
        table = {each.metadata["option"].lower(): each for each in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in told.items():
            if name.lower() in _SPARKS:
                continue
            known = table.get(name.lower())
            if known is None:
                raise OptionError(_unknown(name, [each.metadata["option"] for each in fields(cls)]))
            try:
                values[known.name] = known.metadata["parse"](str(value))
            except ValueError as error:
                shown = "" if known.name == "passcode" else f", not {str(value)[:80]!r}"
                raise OptionError(f"option {known.metadata['option']} {error}{shown}") from None
        options = cls(**values)
        if options.passcode and options.passcode_env:
            raise OptionError("option passcodeEnv cannot stand beside passcode: give one of them")
        return options

    @property
    def prefetch(self) -> int:
        """Messages that the server may send ahead of their ACKs, on each subscription.

        Mode ack holds a batch that runs and gathers the next; the others acknowledge at once.
        """
        if self.prefetch_count:
            return self.prefetch_count
        return 2 * self.max_rows if self.mode == "ack" else 10_000

    @property
    def in_flight(self) -> int:
        """Messages whose ACKs a broken connection may lose: `prefetch` counts for each subscription."""
        return self.prefetch * len(self.destination)

    def server(self) -> StompServer:
        """The server and the login.  `OptionError`: the environment has no such variable on this node."""
        return StompServer(
            self.host,
            self.port,
            tls=self.ssl,
            ca=self.ssl_ca,
            login=self.login,
            passcode=self._secret(),
            vhost=self.vhost,
            versions=self.version,
            heartbeat=self.heartbeat,
            headers=self.connect_headers,
            connect_timeout=self.connect_timeout,
            receipt_timeout=self.receipt_timeout,
        )

    def _secret(self) -> str:
        if not self.passcode_env:
            return self.passcode
        if (value := os.environ.get(self.passcode_env)) is None:
            raise OptionError(f"option passcodeEnv names {self.passcode_env}, which the environment does not have")
        return _text(value)

    def check_source(self) -> None:
        """Refuse options that no source can use.  `OptionError`: `destination` is missing."""
        if not self.destination:
            raise OptionError("option destination is missing: name the destination to subscribe to")

    def check_stream(self) -> None:
        """Refuse options that a streaming source cannot use.

        `OptionError`: `spoolDir` is missing, or mode ack cannot acknowledge one by one.
        """
        self.check_source()
        if self.mode == "spool" and not self.spool_dir:
            raise OptionError(
                "option spoolDir is missing: mode spool needs a folder of its own on a durable disk of the driver, "
                "or choose mode ack or offset"
            )
        if self.mode == "ack" and (self.ack_mode == "client" or self.version == "1.0"):
            raise OptionError("mode ack acknowledges one by one: it needs ackMode client-individual and version 1.1 up")


def _unknown(name: str, known: list[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1, 0.5)
    return f"there is no option {name}" + (f"; is {by_lower[near[0]]} meant?" if near else "")
