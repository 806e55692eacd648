"""Where things are: options, settings, and what can be a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.pipeline import paths
from gateway.pipeline.errors import EnvironmentFailure, UsageFailure


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("ARCHIVE", "TABLES"):
        monkeypatch.delenv(f"GATEWAY_{name}", raising=False)


def test_the_option_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TABLES", "/elsewhere")
    assert paths.tables("there/../here") == tmp_path / "here"


def test_else_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TABLES", str(tmp_path / "variable"))
    (tmp_path / "gateway.toml").write_text('archive = "of-file"\n')
    assert paths.tables(None) == tmp_path / "variable"
    assert paths.archive(None) == str(tmp_path / "of-file")


@pytest.mark.parametrize("name", ["archive", "tables"])
def test_no_folder_is_given(name: str) -> None:
    with pytest.raises(UsageFailure) as caught:
        getattr(paths, name)(None)
    assert f"--{name} is missing: give it, or set {name} in gateway.toml or GATEWAY_{name.upper()}" in str(caught.value)


def test_settings_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("archives = 1\n")
    with pytest.raises(UsageFailure, match="archives"):
        paths.archive(None)


@pytest.mark.parametrize("text", ["hdfs://host:8020/a", "s3a://bucket/a", "abfss:/x"])
def test_an_archive_may_be_elsewhere(text: str) -> None:
    assert paths.archive(text) == text
    with pytest.raises(UsageFailure, match=f"--archive {text} is not on this machine"):
        paths.folder("--archive", text)


@pytest.mark.parametrize("text", ["file:///data/a", "FILE:/data/a", "/data/a/", "/data/b/../a"])
def test_a_file_uri_is_a_folder(text: str) -> None:
    assert paths.archive(text) == "/data/a"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageFailure, match=r"--tables .*file is not a folder"):
        paths.tables("file")


def test_what_must_exist(tmp_path: Path) -> None:
    assert paths.existing("--archive", str(tmp_path), "a job") == str(tmp_path)
    assert paths.existing("--archive", "s3a://bucket/a", "a job") == "s3a://bucket/a"
    with pytest.raises(UsageFailure, match="does not exist; a job makes it"):
        paths.existing("--archive", str(tmp_path / "none"), "a job")


def test_folders_are_made(tmp_path: Path) -> None:
    made = paths.make("--tables", tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=r"--tables .* cannot be made: Not a directory"):
        paths.make("--tables", tmp_path / "file" / "b")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(EnvironmentFailure, match="cannot be written"):
        paths.make("--tables", tmp_path)


def test_a_folder_for_files(tmp_path: Path) -> None:
    paths.writable("--out", tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for name, sentence in (
        ("none", f"--out: the folder {tmp_path}/none does not exist: make it, or name another one"),
        ("file", f"--out: nothing can be written in {tmp_path}/file: Not a directory"),
    ):
        with pytest.raises(EnvironmentFailure) as caught:
            paths.writable("--out", tmp_path / name)
        assert str(caught.value) == sentence
