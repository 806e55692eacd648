"""Files with secrets that others can read or write."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.settings import Settings
from gateway.runtime.listeners import warnings_of_files
from tests.auth import issuer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One whose folders above, which are the machine's, count as open to all."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "parents", property(lambda path: [path.parent]))
    return tmp_path


def found(folder: Path, setting: str, mode: int, content: bytes = b"s" * 40) -> list[str]:
    path = folder / "file"
    path.write_bytes(content)
    path.chmod(mode)
    return list(warnings_of_files(Settings(**{setting: path})))  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", ["users_file", "tls_key"])
@pytest.mark.parametrize(("mode", "what"), [(0o644, "read"), (0o602, "write"), (0o666, "read and write")])
def test_open_to_others(folder: Path, setting: str, mode: int, what: str) -> None:
    (sentence,) = found(folder, setting, mode)
    assert sentence == (
        f"{setting}: every user of this machine can {what} {folder}/file: run `chmod o-rwx {folder}/file`"
    )


def test_public_keys_may_be_read_and_not_written(folder: Path) -> None:
    assert found(folder, "jwt_keys", 0o644, issuer.public_pem("P-256").encode()) == []
    (sentence,) = found(folder, "jwt_keys", 0o646, issuer.public_pem("P-256").encode())
    assert "can write" in sentence


def test_nothing_to_say(folder: Path) -> None:
    for mode in (0o600, 0o660):
        assert found(folder, "users_file", mode) == []
    for content in (b"short", b"-----BEGIN NOTHING-----"):
        assert found(folder, "jwt_keys", 0o644, content) == [], "what is no key is told elsewhere"
    assert list(warnings_of_files(Settings(users_file=folder / "nowhere"))) == []  # type: ignore[call-arg]
    folder.chmod(0o750)
    assert found(folder, "users_file", 0o666) == [], "the folder lets no other user through"
