"""The setting `handlers`: the module that it names, and what is said when there are no functions in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gateway.config.settings import SettingsError
from gateway.config.settings import load as load_settings
from gateway.handlers import HandlersError, load

GOOD = """
from gateway.handlers import Handlers
number = 1
functions = Handlers()
"""


@pytest.fixture(autouse=True)
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
            ("mine:number", GOOD, "number is a int in mine, and it should be a gateway.handlers.Handlers; write "),
            ("mine:app", "app = None", "app is a NoneType in mine, and it should be a gateway.handlers.Handlers"),
            ("mine:app", "\n1 / 0", "cannot import mine: ZeroDivisionError: division by zero ({}/mine.py line 2)"),
            ("mine:app", "a b", "cannot import mine: SyntaxError: invalid syntax (mine.py, line 1)"),
            (
                "mine:app",
                "import absent",
                "cannot import mine: ModuleNotFoundError: No module named 'absent' ({}/mine.py line 1)",
            ),
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


class TestSetting:
    @pytest.mark.parametrize("text", ["a", "a:", ":b", "a:b.c", "a:b:c", "a.py:b c", "./a:b", "a..b:c"])
    def test_wrong(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GATEWAY_HANDLERS", text)
        with pytest.raises(SettingsError) as refusal:
            load_settings()
        assert str(refusal.value) == (
            f"handlers (GATEWAY_HANDLERS) is wrong: {text!r} is no attribute of a module; "
            "write module:attribute, like prices.app:handlers"
        )
