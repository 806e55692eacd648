"""The settings file: how it is read, and what is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.toml_file import SettingsError, SettingsFile, listed, read


def written(data: bytes | str) -> SettingsFile:
    Path("gateway.toml").write_bytes(data if isinstance(data, bytes) else data.encode())
    return read()


def refused(data: bytes | str) -> str:
    with pytest.raises(SettingsError) as refusal:
        written(data)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read() == SettingsFile(Path("gateway.toml"), "", {})
    assert written("a = 1\n[b]\nc = [2]\n").values == {"a": 1, "b": {"c": [2]}}
    for data in (b"\xef\xbb\xbfa = 1\r\nb = 2", b"a = 1\r\nb = 2\r\n", b"\xef\xbb\xbfa = 1\nb = 2"):  # as of Windows
        file = written(data)
        assert file.values == {"a": 1, "b": 2}
        assert [file.line_of(name) for name in "ab"] == [1, 2]
    monkeypatch.setenv("GATEWAY_CONFIG", "other.toml")
    with pytest.raises(SettingsError, match=r"^GATEWAY_CONFIG names other.toml, but there is no such file$"):
        read()
    Path("other.toml").write_text("a = 1")
    assert read().values == {"a": 1}


def test_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("a = 1\nb = 'ü'".encode("latin-1")) == "gateway.toml cannot be read: it is not UTF-8 (byte 12)"
    assert refused("a = 1\nb = \n") == "gateway.toml cannot be read: Invalid value (at line 2, column 5)"
    for text, sentence in (
        ("a = 1\n\na = 2", "gateway.toml line 3: a is set twice, first in line 1"),
        ("b = [\n1]\na = 1\n'a' = 1\nc = ", "gateway.toml line 4: a is set twice, first in line 3"),
        ("a.b = 1\na.c = 1\na.b = 1", "gateway.toml line 3: a.b is set twice, first in line 1"),
        ("a = 1\n[[p]]\na = 1\n[[p]]\nb = 1\na = 1\nb = 1", "gateway.toml line 7: b is set twice, first in line 5"),
    ):
        assert refused(text) == sentence
    for text in ("a = {b = 1, b = 2}", "a = 1\na.b = 1", "[a]\n[a]"):  # as tomllib says it
        assert refused(text).startswith("gateway.toml cannot be read: ")

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(SettingsError, match=r"^gateway.toml cannot be read: Permission denied$"):
        read()


def test_lines() -> None:
    file = written("a = 1\n'b' = [\n2,\n]\nc.d = 1\n\n[[e]]\na = 1\n[f.g]\ne = 1\n[[e]]\n[h]\n")
    assert {name: file.line_of(name) for name in "abcefh"} == {"a": 1, "b": 2, "c": 5, "e": 7, "f": 9, "h": 12}
    for name in ("d", "g", ""):
        assert name not in file.values
        with pytest.raises(KeyError):
            file.line_of(name)


def test_lists() -> None:
    assert listed(" a , b,, ") == ["a", "b"]
    assert listed("") == []
    assert listed(1) == 1
