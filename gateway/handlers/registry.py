"""Registry of the operator's functions by destination.

The operator's module fills a `Handlers` at import.  It never changes afterwards and belongs to no gateway.

The destinations of a function are a template, which may have fields: arguments of the function.

    template = "/app/" word *(separator word)
    word     = field / literal
    field    = "{" identifier "}"

A field is exactly one word of the name, and not an empty one.  Words and separators are those of patterns
(`broker.model.patterns`): `/app/greet/{name}` matches `/app/greet.bob`, too, and never `/app/greet/a.b`.

A template without fields goes first.  Of several templates with fields, the one with a literal word at the first
difference goes first: `/app/a/{x}` before `/app/{y}/b`.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from gateway import plugins
from gateway.broker.model.destinations import APP, HANDLERS
from gateway.broker.model.patterns import MAX_WORDS, ONE, WILDCARDS, split
from gateway.broker.model.trie import PatternTrie

from .typed import Arguments, arguments_of

F = TypeVar("F", bound=Callable[..., Awaitable[object]])
"""A function.  It returns the body of its reply: bytes, text, or what becomes JSON; None: no reply, or it has replied
itself."""

SEND = "send"
SUBSCRIBE = "subscribe"

OF_SENDS = f"{HANDLERS}{SEND}/#"
"""The pattern of the queues in which sent messages wait for their functions."""
DEAD_LETTERS = "/queue/dlq.app"  # the dead letter queue of functions, unless a policy names another

CONCURRENCY = 16
MAX_CONCURRENCY = 10_000
TIMEOUT = 30.0  # seconds


class Template:
    """One destination of a function.

    `shape`: the words of the pattern; templates of one shape match the same names.  Raises ValueError: it is no
    template; `str()` is a sentence.
    """

    __slots__ = ("_words", "fields", "pattern", "shape", "text")

    def __init__(self, text: str) -> None:
        self.text = text  # as the operator wrote it
        words = split(text)
        _check(text, words)
        self._words = tuple(_field(word) for word in words)
        self.fields = tuple(field for field in self._words if field)  # names of the fields, in order
        self.shape = tuple(ONE if field else word for word, field in zip(words, self._words, strict=True))
        self.pattern = "/" + "/".join(self.shape)  # the text with a wildcard for each field, for a trie of patterns
        if len(set(self.fields)) < len(self.fields):
            raise ValueError(f"{text!r} has two fields of one name")

    def values(self, name: str) -> dict[str, str]:
        """The fields' values in a name that the pattern matches."""
        return {field: word for field, word in zip(self._words, split(name), strict=True) if field}

    @property
    def places(self) -> tuple[bool, ...]:
        """The places of its fields.  Of templates that match one name, the least has the first literal word."""
        return tuple(bool(field) for field in self._words)


def _check(text: str, words: tuple[str, ...]) -> None:
    if not text.startswith(APP) or text == APP:
        raise ValueError(f"functions are for destinations like {APP}NAME, not for {text!r}")
    if "," in text:
        raise ValueError(f"{text!r} has a comma, which separates destinations")
    if not WILDCARDS.isdisjoint(words):
        raise ValueError(f"{text!r} has a wildcard; a field in braces, like {{name}}, stands for one word")
    if len(words) > MAX_WORDS:
        raise ValueError(f"{text[:80]!r} has {len(words)} words, and may have {MAX_WORDS}")


def _field(word: str) -> str:
    """The name of the field in a word; empty: the word is a literal.  Raises ValueError: its braces are no field."""
    if "{" not in word and "}" not in word:
        return ""
    field = word[1:-1]
    if word != f"{{{field}}}" or not field.isidentifier():
        raise ValueError(f"{word!r} is no field: write a Python name in braces as a whole word")
    return field


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the operator."""

    kind: str  # `send` or `subscribe`
    template: Template
    call: Callable[..., Awaitable[object]]  # the function itself
    arguments: Arguments  # how it gets what a request has
    concurrency: int  # requests that it handles at a time
    timeout: float  # seconds that one request may take

    @property
    def queue(self) -> str:
        """The queue in which its requests wait."""
        return f"{HANDLERS}{self.kind}/{self.template.text.removeprefix(APP)}"


class _Functions:
    def __init__(self) -> None:
        self.all: dict[tuple[str, ...], Function] = {}  # by the words of its template
        self._by_name: dict[str, Function] = {}
        self._by_pattern: PatternTrie[Function] = PatternTrie()

    def add(self, function: Function) -> None:
        template = function.template
        # Without fields, `/app/a.b` and `/app/a/b` are two names.
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

    Both decorators return the function unchanged.  It is called with the `Request`, and with the fields of its
    destination as keyword arguments.
    """

    def __init__(self) -> None:
        self._of_send = _Functions()
        self._of_subscribe = _Functions()

    def send(self, destination: str, *, concurrency: int = CONCURRENCY, timeout: float = TIMEOUT) -> Callable[[F], F]:
        """Register a function for the messages that clients SEND to a destination.  Its return value is the reply.

        Args:
            destination: `/app/...`, perhaps with fields.
            concurrency: requests that it handles at a time; 1: one after the other, in order of arrival.
            timeout: seconds after which an unfinished request has failed.

        Raises:
            ValueError: an argument is wrong; `str()` is a sentence.
        """
        return self._registering(self._of_send, SEND, destination, concurrency, timeout)

    def subscribe(
        self, destination: str, *, concurrency: int = CONCURRENCY, timeout: float = TIMEOUT
    ) -> Callable[[F], F]:
        """Register a function for the SUBSCRIBE frames to a destination.  Its return value is their one MESSAGE.

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
            functions.add(Function(kind, template, call, _arguments(call, template), concurrency, timeout))
            return call

        return register

    def functions(self) -> Iterator[Function]:
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


def _arguments(call: Callable[..., object], template: Template) -> Arguments:
    """How a function is called.  Raises ValueError: it cannot be, which is told now and not at the first message."""
    name = _name_of(call)
    if not callable(call):
        raise ValueError(f"{name} for {template.text!r} is no function")
    if not inspect.iscoroutinefunction(call) and not inspect.iscoroutinefunction(type(call).__call__):
        raise ValueError(
            f"{name} for {template.text!r} must be an `async def`: a plain function would block all clients while "
            "it runs; inside it, call blocking code by `await trio.to_thread.run_sync(...)`"
        )
    try:
        found = arguments_of(call, template.fields)
    except ValueError as error:
        raise ValueError(f"{name} for {template.text!r}: {error}") from None
    named = [*template.fields, found.body] if found.body else template.fields
    try:
        inspect.signature(call).bind(None, **dict.fromkeys(named, ""))
    except TypeError as error:
        wanted = ", ".join(["request", *named])
        raise ValueError(f"{name} for {template.text!r} is called with ({wanted}): {error}") from None
    return found


def _name_of(call: object) -> str:
    return getattr(call, "__qualname__", None) or repr(call)


class HandlersError(Exception):
    """The functions cannot be loaded; `str()` is one sentence."""


def load(text: str) -> Handlers:
    """Import the operator's module.  Raises HandlersError: it cannot be imported, or the attribute is no `Handlers`."""
    try:
        found: Handlers = plugins.load(
            text, lambda value: isinstance(value, Handlers), "a gateway.handlers.Handlers", hints=True
        )
    except plugins.PluginError as error:
        raise HandlersError(str(error)) from error
    return found
