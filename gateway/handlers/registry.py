"""Which functions there are, and which of them a destination is for.

`Handlers` is what the operator's module fills at import.  It never changes afterwards and belongs to no gateway: what
runs is the runner's.

A name without fields goes first.  Of several templates with fields that match, the one counts that has a word of its
own where the other has a field, at the first place where they differ: `/app/a/{x}` before `/app/{y}/b`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from gateway.broker.model.destinations import APP, HANDLERS
from gateway.broker.model.trie import PatternTrie

from .templates import Template

Answer = bytes | str | None
"""What a function returns: the body of its reply; None: it has replied itself, or there is nothing to say."""

F = TypeVar("F", bound=Callable[..., Awaitable[Answer]])

SEND = "send"
SUBSCRIBE = "subscribe"

OF_SENDS = f"{HANDLERS}{SEND}/#"
"""The pattern of the queues in which what was sent waits."""
DEAD_LETTERS = "/queue/dlq.app"
"""Where messages go whose function failed for good, unless a policy says otherwise."""

CONCURRENCY = 16
MAX_CONCURRENCY = 10_000
TIMEOUT = 30.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the operator.

    Attributes:
        kind: `send` or `subscribe`.
        call: the function itself.
        concurrency: how many of its requests are at work at most.
        timeout: seconds that one of them may take.
    """

    kind: str
    template: Template
    call: Callable[..., Awaitable[Answer]]
    concurrency: int
    timeout: float

    @property
    def queue(self) -> str:
        """The queue in which its requests wait."""
        return f"{HANDLERS}{self.kind}/{self.template.text.removeprefix(APP)}"


class _Functions:
    """The functions for one kind of frame."""

    def __init__(self) -> None:
        self.all: dict[tuple[str, ...], Function] = {}  # by the words of its template
        self._by_name: dict[str, Function] = {}
        self._by_pattern: PatternTrie[Function] = PatternTrie()

    def add(self, function: Function) -> None:
        template = function.template
        # Of names without fields, `/app/a.b` and `/app/a/b` are two.
        key = template.shape if template.fields else (template.text,)
        other = self.all.setdefault(key, function)
        if other is not function:
            raise ValueError(
                f"{template.text!r} has a function already: {_name_of(other.call)} ({other.template.text})"
            )
        if template.fields:
            self._by_pattern.add(template.pattern, function)
        else:
            self._by_name[template.text] = function

    def find(self, name: str) -> Function | None:
        function = self._by_name.get(name)
        if function is not None:
            return function
        found = [each for each in self._by_pattern.match(name) if all(each.template.values(name).values())]
        return min(found, key=lambda each: each.template.places, default=None)


class Handlers:
    """The operator's functions: `gateway.broker.core.ports.Application`.

    Both decorators leave the function as it is.  It is called with the `Request`, and with the words of its
    destination that stand in braces, by name.
    """

    def __init__(self) -> None:
        self._of_send = _Functions()
        self._of_subscribe = _Functions()

    def send(self, destination: str, *, concurrency: int = CONCURRENCY, timeout: float = TIMEOUT) -> Callable[[F], F]:
        """The function handles what clients SEND to that destination.  What it returns is its reply.

        Args:
            destination: `/app/...`, perhaps with fields.
            concurrency: how many requests it works on at a time; 1: one after the other, in order of arrival.
            timeout: seconds after which a request that is not done has failed.

        Raises:
            ValueError: that cannot be; `str()` is a sentence.
        """
        return self._registering(self._of_send, SEND, destination, concurrency, timeout)

    def subscribe(
        self, destination: str, *, concurrency: int = CONCURRENCY, timeout: float = TIMEOUT
    ) -> Callable[[F], F]:
        """The function answers those who SUBSCRIBE that destination.  What it returns is the one MESSAGE they get.

        Arguments and errors are those of `send`.
        """
        return self._registering(self._of_subscribe, SUBSCRIBE, destination, concurrency, timeout)

    def _registering(
        self, functions: _Functions, kind: str, destination: str, concurrency: int, timeout: float
    ) -> Callable[[F], F]:
        template = Template(destination)
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            raise ValueError(f"concurrency of {destination!r} must be between 1 and {MAX_CONCURRENCY:,}")
        if not timeout > 0:
            raise ValueError(f"timeout of {destination!r} must be more than 0 seconds")

        def register(call: F) -> F:
            _check(call, template)
            functions.add(Function(kind, template, call, concurrency, timeout))
            return call

        return register

    def functions(self) -> Iterator[Function]:
        """All of them."""
        yield from self._of_send.all.values()
        yield from self._of_subscribe.all.values()

    def queue_of_send(self, name: str) -> str | None:
        """See `Application`."""
        return _queue(self._of_send.find(name))

    def queue_of_subscribe(self, name: str) -> str | None:
        """See `Application`."""
        return _queue(self._of_subscribe.find(name))


def _queue(function: Function | None) -> str | None:
    return None if function is None else function.queue


def _check(call: Callable[..., object], template: Template) -> None:
    """Refuse what could not be called, now and not at the first message."""
    name = _name_of(call)
    if not callable(call):
        raise ValueError(f"{name} for {template.text!r} is no function")
    if not inspect.iscoroutinefunction(call) and not inspect.iscoroutinefunction(type(call).__call__):
        raise ValueError(
            f"{name} for {template.text!r} must be an `async def`: a plain function would keep all clients waiting "
            "while it runs; inside of it, call what blocks by `await trio.to_thread.run_sync(...)`"
        )
    try:
        inspect.signature(call).bind(None, **dict.fromkeys(template.fields, ""))
    except TypeError as error:
        wanted = ", ".join(["request", *template.fields])
        raise ValueError(f"{name} for {template.text!r} is called with ({wanted}): {error}") from None


def _name_of(call: object) -> str:
    return getattr(call, "__qualname__", None) or repr(call)
