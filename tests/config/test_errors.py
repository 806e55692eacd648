"""The settings file, and mistakes in settings: each names the place where it stands, and what could be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.errors import Sources, wrong
from gateway.config.settings import SettingsError, load
from gateway.config.toml_file import SettingsFile, listed, read


def write(text: bytes | str) -> None:
    Path("gateway.toml").write_bytes(text if isinstance(text, bytes) else text.encode())


def read_file(text: bytes | str) -> SettingsFile:
    write(text)
    return read()


def refused() -> str:
    with pytest.raises(SettingsError) as refusal:
        load()
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


NO_TABLE = "settings stand outside of tables: write them above the first [header]"
ALL = "`gateway check-config --list` names them all"


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("tcpp = 1", "there is no setting 'tcpp'; did you mean tcp?"),
            ("wallpaper = 1", f"there is no setting 'wallpaper'; {ALL}"),
            ("_env_file = 'x'", "there is no setting '_env_file'; did you mean users_file?"),
            ("[polcy]", "there is no setting 'polcy'; did you mean [[policy]]?"),
            ("GATEWAY_STORE = 1", "there is no setting 'GATEWAY_STORE'; did you mean store?"),
            ("heartbeat = 1", "there is no setting 'heartbeat'; did you mean heartbeat_send?"),
            ("port = 1", "there is no setting 'port'; did you mean tcp?"),
            ("[server]\ntcp = []", f"there is no setting 'server'; {NO_TABLE}"),
            ("max_attempts = 5", "max_attempts belongs in a [[policy]]: it is a key of policies and no setting"),
        ],
    )
    def test_in_the_file(self, text: str, sentence: str) -> None:
        write(f"max_headers = 20\n\n{text}\n")
        assert refused() == f"gateway.toml line 3: {sentence}"

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("TCPP", "there is no setting GATEWAY_TCPP; did you mean GATEWAY_TCP?"),
            ("WALLPAPER", f"there is no setting GATEWAY_WALLPAPER; {ALL}"),
            *(
                (name, f"GATEWAY_{name} is no variable; write {kinds} as [[{kind}]] tables into gateway.toml")
                for kind, kinds, names in (
                    ("policy", "policies", ("POLICY", "MATCH", "MAX_ATTEMPTS")),
                    ("rule", "rules", ("RULE", "DESTINATION", "DENY")),
                )
                for name in names
            ),
        ],
    )
    def test_of_variables(self, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str) -> None:
        monkeypatch.setenv(f"GATEWAY_{name}", "1")
        assert refused() == sentence


class TestPlaces:
    def test_of_the_file_and_of_a_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("\nmax_headers = 1")
        assert refused() == "gateway.toml line 2: max_headers must be a whole number from 10 to 100,000, not 1"
        monkeypatch.setenv("GATEWAY_MAX_HEADERS", "50")
        assert load().max_headers == 50, "the file's value does not count"
        write("max_headers = 50")
        for name in ("GATEWAY_MAX_HEADERS", "gateway_max_headers"):
            monkeypatch.delenv("GATEWAY_MAX_HEADERS", raising=False)
            monkeypatch.setenv(name, "1")
            assert refused().startswith("max_headers (GATEWAY_MAX_HEADERS) must be a whole number from 10")

    def test_of_each_source(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("max_headers = 50\nmax_body = 5000\ntcp = []")
        monkeypatch.setenv("GATEWAY_MAX_BODY", "6000")
        sources = Sources(read(), {"tcp"})
        names = ("max_headers", "max_body", "tcp", "http")
        assert [sources.of(name) for name in names] == [
            "gateway.toml line 1",
            "GATEWAY_MAX_BODY",
            "argument",
            "default",
        ]
        assert [name for name in names if sources.is_in_file(name)] == ["max_headers"]


def test_a_value_that_turns_out_to_be_wrong_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = "handlers (GATEWAY_HANDLERS) is wrong: no"
    assert wrong("handlers", "no") == elsewhere
    write("\n\nhandlers = 'a:b'")
    assert wrong("handlers", ValueError("no")) == "gateway.toml line 3: handlers is wrong: no"
    write("handlers = ")  # it is broken by now
    assert wrong("handlers", "no") == elsewhere
    write("handlers = 'a:b'")
    monkeypatch.setenv("GATEWAY_HANDLERS", "c:d")
    assert wrong("handlers", "no") == elsewhere


def test_reading_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read() == SettingsFile(Path("gateway.toml"), "", {})
    assert read_file("a = 1\n[b]\nc = [2]\n").values == {"a": 1, "b": {"c": [2]}}
    for data in (b"\xef\xbb\xbfa = 1\r\nb = 2", b"a = 1\r\nb = 2\r\n", b"\xef\xbb\xbfa = 1\nb = 2"):  # as of Windows
        file = read_file(data)
        assert file.values == {"a": 1, "b": 2}
        assert [file.line_of(name) for name in "ab"] == [1, 2]
    monkeypatch.setenv("GATEWAY_CONFIG", "other.toml")
    with pytest.raises(SettingsError, match=r"^GATEWAY_CONFIG names other.toml, but there is no such file$"):
        read()
    Path("other.toml").write_text("a = 1")
    assert read().values == {"a": 1}


def test_a_file_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, sentence in (
        ("a = 1\nb = 'ü'".encode("latin-1"), "gateway.toml cannot be read: it is not UTF-8 (byte 12)"),
        ("a = 1\n\na = 2", "gateway.toml line 3: a is set twice, first in line 1"),
        ("b = [\n1]\na = 1\n'a' = 1\nc = ", "gateway.toml line 4: a is set twice, first in line 3"),
        ("a.b = 1\na.c = 1\na.b = 1", "gateway.toml line 3: a.b is set twice, first in line 1"),
        ("a = 1\n[[p]]\na = 1\n[[p]]\nb = 1\na = 1\nb = 1", "gateway.toml line 7: b is set twice, first in line 5"),
    ):
        write(text)
        assert refused() == sentence

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(SettingsError, match=r"^gateway.toml cannot be read: Permission denied$"):
        read()


def test_lines_of_the_file() -> None:
    file = read_file("a = 1\n'b' = [\n2,\n]\nc.d = 1\n\n[[e]]\na = 1\n[f.g]\ne = 1\n[[e]]\n[h]\n")
    assert {name: file.line_of(name) for name in "abcefh"} == {"a": 1, "b": 2, "c": 5, "e": 7, "f": 9, "h": 12}
    for name in ("d", "g", ""):
        assert name not in file.values
        with pytest.raises(KeyError):
            file.line_of(name)


def test_lists() -> None:
    assert listed(" a , b,, ") == ["a", "b"]
    assert listed("") == []
    assert listed(1) == 1
