"""What the cluster needs of JetStream: streams, appends with a condition, reads by sequence, keys with a time to live.

All calls are requests to subjects, with answers in JSON (ADR-1, ADR-31 for direct gets, ADR-43 for times to live).
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .connection import NatsConnection
from .faults import About, NatsRefused, NatsUnavailable, NoResponders, Unanswered
from .protocol import Message

# `err_code` of JetStream's answers.
WRONG_LAST_SEQUENCE = {10071, 10164}
STREAM_NOT_FOUND = 10059
NO_MESSAGE = 10037
NO_ROOM = {10047, 10077, 10023, 10028}  # storage of the account, bytes of the stream, and resources of the servers
# The servers cannot answer for now: no leader, or a change of it.
_FOR_NOW = {10008, 10009, 10118, 10195}
_OFF = {10039, 10076}  # for the account, and for the server; both with 503, as what is so for now
_NAME_IN_USE = 10058
_TOO_FEW_SERVERS = 10005  # for now: more may join
_NO_CLUSTER = 10074

# What an operator may change in a stream that is there, among what is asked for.
_FREE = {"description", "num_replicas", "duplicate_window"}

SILENT = 3e9
"""Nanoseconds after which a server is lost that told the leader nothing; it tells once a second."""

_FIRST = 1.0
"""Seconds for the first answer of a direct get."""

BY_LEADER = 15.0
"""Seconds for which the leader is asked, after a direct get without an answer."""

_END_OF_BATCH = 204
_NOT_FOUND = 404


class JetStreamError(Exception):
    """JetStream refuses a request; `str()` is its sentence.  `code`: JetStream's `err_code`."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code


class StoredMessage(NamedTuple):
    """A message of a stream."""

    subject: str
    sequence: int
    payload: bytes


class JetStream:
    """JetStream's requests over one connection.

    All methods raise NatsUnavailable: there was no answer, or JetStream has no leader for it; JetStreamError: the
    request is refused.
    """

    def __init__(self, connection: NatsConnection, clock: Callable[[], float] = time.monotonic) -> None:
        self.connection = connection
        self._clock = clock
        self._by_leader_until = -math.inf

    def call(self, verb: str, values: Mapping[str, object] | None = None, timeout: float = 5.0) -> dict[str, Any]:
        """A request of the API, like `STREAM.INFO.name`."""
        payload = b"" if values is None else json.dumps(values).encode()
        try:
            return self._answer(self.connection.request(f"$JS.API.{verb}", payload, timeout=timeout))
        except NoResponders:
            raise self._without(self._nothing_listens()) from None

    def _without(self, error: NatsUnavailable) -> NatsUnavailable:
        """The error of a server that knows of no leader: cut off from the others, it never will, and they may."""
        self.connection.leave()
        return error

    def _nothing_listens(self) -> NatsUnavailable:
        """Why no server answers a request of the API."""
        info, server = self.connection.info, self.connection.server
        if info.get("jetstream"):
            return NatsUnavailable(f"JetStream has no leader that {server} knows")
        sentence = f"JetStream is off at {server}: its configuration needs a jetstream block"
        # Where it is one of several, JetStream may be on at another one, which is not there yet.
        return (NatsUnavailable if info.get("cluster") else NatsRefused)(sentence, About.SERVER)

    def _answer(self, message: Message) -> dict[str, Any]:
        """The JSON object of an answer."""
        try:
            values = json.loads(message.payload)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise NatsUnavailable(f"JetStream answers {message.payload[:40]!r}, which is no JSON object")
        error = values.get("error")
        if not error:
            return values
        code, description = int(error.get("err_code", 0)), str(error.get("description", ""))
        if code in _FOR_NOW or (error.get("code") == 503 and code not in _OFF | NO_ROOM):
            raise self._without(NatsUnavailable(f"JetStream cannot answer for now: {description}"))
        raise JetStreamError(code, description)

    def make(self, config: Mapping[str, Any]) -> None:
        """Make a stream, unless it is there.

        Raises NatsRefused: it cannot be made, or is there with another configuration.
        """
        name, replicas = config["name"], config["num_replicas"]
        try:
            self.call(f"STREAM.CREATE.{name}", config)
        except JetStreamError as error:
            if error.code == _NAME_IN_USE:
                self._compare(config)
            elif error.code == _TOO_FEW_SERVERS:
                sentence = f"fewer than {replicas} NATS servers can hold the stream {name}: {error}"
                raise NatsUnavailable(sentence, About.REPLICAS) from None
            elif error.code == _NO_CLUSTER:
                sentence = f"{self.connection.server} is alone: it cannot hold {replicas} replicas"
                raise NatsRefused(sentence, About.REPLICAS) from None
            else:
                raise NatsRefused(f"JetStream does not make the stream {name}: {error}", About.SERVER) from None

    def _compare(self, config: Mapping[str, Any]) -> None:
        """Refuse a stream that is there, and is not as asked for."""
        name, replicas = config["name"], config["num_replicas"]
        found = self.call(f"STREAM.INFO.{name}")["config"]
        if found["num_replicas"] < replicas:
            sentence = (
                f"the stream {name} has {found['num_replicas']} replicas: "
                f"`nats stream edit {name} --replicas {replicas}` makes more"
            )
            raise NatsRefused(sentence, About.REPLICAS)
        for key, value in config.items():
            if key not in _FREE and found.get(key) != value:
                sentence = f"the stream {name} is there already, and its {key} is {found.get(key)} and not {value}"
                raise NatsRefused(sentence, About.SERVER)

    def append(self, subject: str, payload: bytes, headers: Mapping[str, str], timeout: float = 5.0) -> int:
        """Publish into the stream of a subject; returns the sequence."""
        try:
            return int(self._answer(self.connection.request(subject, payload, headers, timeout))["seq"])
        except NoResponders:
            raise self._without(NatsUnavailable(f"the stream of {subject} has no leader")) from None

    def read(
        self, stream: str, first: int, most: int, nbytes: int, *, subject: str, timeout: float = 5.0
    ) -> list[StoredMessage]:
        """The next messages of a subject from a sequence on, by any server of the stream: the last may be missing.

        The servers give the request to one of them, and that may be one that is cut off: they know it after a minute
        or two.  Then the leader answers, a message at a time.

        Args:
            most: messages.
            nbytes: of all, about.
            subject: may have wildcards.
            timeout: seconds for all of it.
        """
        until = self._clock() + timeout
        if self._clock() >= self._by_leader_until:
            try:
                return list(self._read_directly(stream, first, most, nbytes, subject, timeout))
            except Unanswered:
                self._by_leader_until = self._clock() + BY_LEADER
        return list(self._read_of_leader(stream, first, most, nbytes, subject, until))

    def _read_directly(
        self, stream: str, first: int, most: int, nbytes: int, subject: str, timeout: float
    ) -> Iterator[StoredMessage]:
        asked = {"seq": first, "batch": most, "max_bytes": nbytes, "next_by_subj": subject}
        api, payload = f"$JS.API.DIRECT.GET.{stream}", json.dumps(asked).encode()
        try:
            for each in self.connection.request_many(api, payload, timeout, _FIRST):
                if each.status in (_END_OF_BATCH, _NOT_FOUND):
                    return
                yield _stored(stream, each)
        except NoResponders:
            sentence = f"no server has the stream {stream}, or it has no leader"
            raise self._without(NatsUnavailable(sentence)) from None

    def _read_of_leader(
        self, stream: str, first: int, most: int, nbytes: int, subject: str, until: float
    ) -> Iterator[StoredMessage]:
        while most > 0 and nbytes > 0 and self._clock() < until:
            found = self._message(stream, {"seq": first, "next_by_subj": subject}, until - self._clock())
            if found is None:
                return
            yield found
            first, most, nbytes = found.sequence + 1, most - 1, nbytes - len(found.payload)

    def last(self, stream: str, subject: str, timeout: float = 5.0) -> tuple[int, bytes] | None:
        """Sequence and payload of the last message of a subject, as the leader of the stream has it; None: none."""
        found = self._message(stream, {"last_by_subj": subject}, timeout)
        return None if found is None else (found.sequence, found.payload)

    def _message(self, stream: str, asked: Mapping[str, object], timeout: float) -> StoredMessage | None:
        """A message, as the leader of the stream has it."""
        try:
            found = self.call(f"STREAM.MSG.GET.{stream}", asked, timeout)["message"]
        except JetStreamError as error:
            if error.code == NO_MESSAGE:
                return None
            raise
        return StoredMessage(str(found["subject"]), int(found["seq"]), base64.b64decode(found.get("data", "")))


def leader_of(info: Mapping[str, Any]) -> str:
    """The server that leads a stream, by an answer of STREAM.INFO; empty: none that a majority follows.

    A leader that is cut off tells for 20 s that it leads.
    """
    cluster = info.get("cluster") or {}
    others = cluster.get("replicas") or ()
    followers = [each for each in others if each.get("active", 0) < SILENT]
    has_majority = 2 * (1 + len(followers)) > 1 + len(others)
    return str(cluster.get("leader", "")) if has_majority else ""


def _stored(stream: str, message: Message) -> StoredMessage:
    """The message of an answer to a direct get."""
    headers = message.headers
    if message.status:
        raise NatsUnavailable(f"the stream {stream} cannot be read: {message.status} {message.description}")
    try:
        return StoredMessage(headers["Nats-Subject"], int(headers["Nats-Sequence"]), message.payload)
    except (KeyError, ValueError):
        raise NatsUnavailable(f"the stream {stream} cannot be read: an answer has no sequence") from None
