"""Which function a destination is for, and which cannot be registered."""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.model.patterns import MAX_WORDS
from gateway.config.settings import SettingsError
from gateway.config.settings import load as load_settings
from gateway.handlers import Handlers, HandlersError, Request, load
from gateway.handlers.registry import Template


@pytest.mark.parametrize(
    ("text", "fields", "pattern"),
    [
        ("/app/prices", (), "/app/prices"),
        ("/app/greet/{name}", ("name",), "/app/greet/*"),
        ("/app/{a}.{b}/c", ("a", "b"), "/app/*/*/c"),
        ("/app/{größe}", ("größe",), "/app/*"),
    ],
)
def test_a_template(text: str, fields: tuple[str, ...], pattern: str) -> None:
    template = Template(text)
    assert (template.text, template.fields, template.pattern) == (text, fields, pattern)
    assert template.pattern == "/" + "/".join(template.shape)


def test_values_of_fields() -> None:
    template = Template("/app/{kind}/of/{name}")
    for name in ("/app/sort/of/thing", "/app.sort.of.thing"):
        assert template.values(name) == {"kind": "sort", "name": "thing"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("/queue/a", "functions are for destinations like /app/NAME, not for '/queue/a'"),
        ("/app/a,/app/b", "'/app/a,/app/b' has a comma, which separates destinations"),
        ("/app/*", "'/app/*' has a wildcard; a field in braces, like {name}, stands for one word"),
        ("/app/{a}/{a}", "'/app/{a}/{a}' has two fields of one name"),
        ("/app/x{a}", "'x{a}' is no field: write a Python name in braces as a whole word"),
        ("/app/{a b}", "'{a b}' is no field: write a Python name in braces as a whole word"),
        ("/app" + "/a" * MAX_WORDS, f"has {MAX_WORDS + 1} words, and may have {MAX_WORDS}"),
    ],
)
def test_what_is_no_template(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Template(text)
    assert sentence in str(refusal.value)


async def anything(request: Request, **fields: str) -> None:
    raise NotImplementedError


def with_functions(*texts: str) -> Handlers:
    handlers = Handlers()
    for text in texts:
        handlers.send(text)(anything)
    return handlers


class TestFinding:
    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("/app/prices", "/handlers/send/prices"),
            ("/app/prices.today", None),
            ("/app/greet/bob", "/handlers/send/greet/{name}"),
            ("/app/greet.bob", "/handlers/send/greet/{name}"),
            ("/app/greet/nobody", "/handlers/send/greet/nobody"),
            ("/app/greet.nobody", "/handlers/send/greet/{name}"),
            ("/app/greet/", None),
        ],
    )
    def test_names(self, name: str, found: str | None) -> None:
        handlers = with_functions("/app/prices", "/app/greet/{name}", "/app/greet/nobody")
        assert handlers.queue_of_send(name) == found
        assert handlers.queue_of_subscribe(name) is None

    def test_the_one_that_says_more_at_the_start(self) -> None:
        """In whatever order they came."""
        for texts in (("/app/{y}/b", "/app/a/{x}"), ("/app/a/{x}", "/app/{y}/b")):
            assert with_functions(*texts).queue_of_send("/app/a/b") == "/handlers/send/a/{x}"


class TestRegistering:
    def test_methods_and_objects(self) -> None:
        class Greeter:
            async def greet(self, request: Request, name: str) -> None:
                raise NotImplementedError

            async def __call__(self, request: Request, name: str) -> None:
                raise NotImplementedError

        handlers = Handlers()
        handlers.send("/app/a/{name}")(Greeter().greet)
        handlers.send("/app/b/{name}")(Greeter())
        handlers.send("/app/c")(functools.partial(Greeter().greet, name="x"))
        assert len(list(handlers.functions())) == 3

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("/app/a", "/app/a"),
            ("/app/a/{x}", "/app/a/{y}"),
        ],
    )
    def test_one_function_each(self, first: str, second: str) -> None:
        handlers = with_functions(first)
        with pytest.raises(ValueError) as refusal:
            handlers.send(second)(anything)
        assert str(refusal.value) == f"{second!r} has a function already: anything ({first})"
        assert len(list(handlers.functions())) == 1

    @pytest.mark.parametrize(
        ("destination", "values", "sentence"),
        [
            *[("/app/a", {"concurrency": each}, "concurrency of '/app/a' must be between") for each in (0, -1, 10_001)],
            *[("/app/a", {"timeout": each}, "timeout of '/app/a' must be more than 0") for each in (0, -1.0, math.nan)],
            ("/topic/a", {}, "not for '/topic/a'"),
        ],
    )
    def test_what_is_refused(self, destination: str, values: dict[str, Any], sentence: str) -> None:
        for register in (Handlers().send, Handlers().subscribe):
            with pytest.raises(ValueError, match=sentence):
                register(destination, **values)


def plain(request: Request) -> None:
    raise NotImplementedError


async def no_name(request: Request) -> None:
    raise NotImplementedError


async def nothing() -> None:
    raise NotImplementedError


class TestCalling:
    """What could not be called is refused before any message comes."""

    def test_a_plain_function_would_block(self) -> None:
        with pytest.raises(ValueError, match=r"^plain for '/app/a' must be an `async def`: .*trio.to_thread.run_sync"):
            Handlers().send("/app/a")(plain)  # type: ignore[type-var]

    @pytest.mark.parametrize("call", [no_name, nothing])
    def test_other_arguments(self, call: Callable[..., object]) -> None:
        sentence = rf"{call.__name__} for '/app/\{{name\}}' is called with \(request, name\): "
        with pytest.raises(ValueError, match=sentence):
            Handlers().send("/app/{name}")(call)  # type: ignore[type-var]


GOOD = """
from gateway.handlers import Handlers
number = 1
functions = Handlers()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, which Python knows nothing of; what it imports there is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


class TestLoad:
    def test_a_file_of_the_working_directory(self, folder: Path) -> None:
        (folder / "mine.py").write_text(GOOD)
        functions = load("mine:functions")
        assert list(functions.functions()) == []
        assert load("mine:functions") is functions
        assert sys.path.count(str(folder)) == 1

    def test_it_takes_the_place_of_no_other_module(self, folder: Path) -> None:
        (folder / "trio.py").write_text(GOOD)
        with pytest.raises(HandlersError, match="there is no functions in trio"):
            load("trio:functions")

    @pytest.mark.parametrize(
        ("text", "source", "sentence"),
        [
            ("absent:app", "", "cannot import absent: ModuleNotFoundError: No module named 'absent'"),
            ("mine:nothing", GOOD, "there is no nothing in mine, and it should be a gateway.handlers.Handlers; write "),
            ("mine:app", "app = None", "app is a NoneType in mine, and it should be a gateway.handlers.Handlers"),
            ("mine:app", "\n1 / 0", "cannot import mine: ZeroDivisionError: division by zero ({}/mine.py line 2)"),
            (
                "mine:app",
                GOOD + "@functions.send('/queue/a')\nasync def f(request): ...",
                "cannot import mine: ValueError: functions are for destinations like /app/NAME, not for",
            ),
            ("mine:app", "raise OSError('two\\nlines')", "cannot import mine: OSError: two lines ({}/mine.py line 1)"),
        ],
    )
    def test_one_sentence_says_what_is_wrong(self, folder: Path, text: str, source: str, sentence: str) -> None:
        (folder / "mine.py").write_text(source)
        with pytest.raises(HandlersError) as refusal:
            load(text)
        assert str(refusal.value).startswith(sentence.format(folder))
        assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", ["a", ":b", "a:b.c", "a:b:c", "a..b:c"])
def test_a_setting_that_names_no_attribute(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_HANDLERS", text)
    sentence = f"handlers (GATEWAY_HANDLERS) is wrong: {text!r} is no attribute of a module; "
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        load_settings()
