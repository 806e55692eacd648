"""Where things are: options, settings, and what can be a place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.pipeline import paths
from gateway.pipeline.errors import EnvironmentFailure, PipelineFailure, UsageFailure


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without settings, with a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for name in ("ARCHIVE", "TABLES"):
        monkeypatch.delenv(f"GATEWAY_{name}", raising=False)


def test_the_option_counts_and_else_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TABLES", str(tmp_path / "variable"))
    assert paths.tables("there/../here") == tmp_path / "here"
    (tmp_path / "gateway.toml").write_text('archive = "of-file"\n')
    assert paths.tables(None) == tmp_path / "variable"
    assert paths.archive(None) == str(tmp_path / "of-file")
    (tmp_path / "gateway.toml").write_text("archives = 1\n")
    with pytest.raises(UsageFailure, match="archives"):
        paths.archive(None)


@pytest.mark.parametrize("text", ["hdfs://host:8020/a", "s3a://bucket/a", "abfss:/x"])
def test_an_archive_may_be_elsewhere(text: str) -> None:
    assert paths.archive(text) == paths.existing("--archive", text, "a job") == text
    with pytest.raises(UsageFailure, match=f"--archive {text} is not on this machine"):
        paths.folder("--archive", text)


@pytest.mark.parametrize("text", ["file:///data/a", "FILE:/data/a", "/data/a/", "/data/b/../a"])
def test_a_file_uri_is_a_folder(text: str) -> None:
    assert paths.archive(text) == "/data/a"


def test_folders_that_can_be_used(tmp_path: Path) -> None:
    assert paths.make("--tables", tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert paths.existing("--archive", str(tmp_path), "a job") == str(tmp_path)
    paths.writable("--out", tmp_path)
    assert sorted([path.name for path in tmp_path.iterdir()]) == ["a", "file"]


@pytest.mark.parametrize(
    ("attempt", "kind", "sentence"),
    [
        (lambda here: paths.tables(None), UsageFailure, "--tables is missing: give it, or set tables in gateway.toml"),
        (lambda here: paths.tables("file"), UsageFailure, "--tables {here}/file is not a folder"),
        (
            lambda here: paths.existing("--archive", f"{here}/none", "a job"),
            UsageFailure,
            "--archive {here}/none does not exist; a job makes it",
        ),
        (
            lambda here: paths.make("--tables", here / "file" / "b"),
            EnvironmentFailure,
            "--tables {here}/file/b cannot be made: Not a directory",
        ),
        (
            lambda here: paths.writable("--out", here / "none"),
            EnvironmentFailure,
            "--out: the folder {here}/none does not exist: make it, or name another one",
        ),
        (
            lambda here: paths.writable("--out", here / "file"),
            EnvironmentFailure,
            "--out: nothing can be written in {here}/file: Not a directory",
        ),
    ],
)
def test_places_that_cannot_be_used(
    tmp_path: Path, attempt: Callable[[Path], object], kind: type[PipelineFailure], sentence: str
) -> None:
    with pytest.raises(kind) as caught:
        attempt(tmp_path)
    assert str(caught.value).startswith(sentence.format(here=tmp_path))
