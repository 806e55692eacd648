"""The users file: hashes, reading, writing, and refusals."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import argon2
import pytest

from gateway.auth import passwords
from gateway.auth.passwords import StoredUser, read_users, remove_user, write_user
from gateway.files import FileFault

HASH = passwords.hash_passcode("secret")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users.txt"


def test_hashes() -> None:
    assert passwords.verify(HASH, "secret")
    assert not passwords.verify(HASH, "Secret")
    assert not passwords.verify("plain text", "plain text")
    assert passwords.hash_passcode("secret") != HASH, "salted"
    found = argon2.extract_parameters(HASH)
    assert found.type is argon2.Type.ID
    assert (found.memory_cost, found.time_cost) >= (19 * 1024, 2)
    other = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=2).hash("secret")
    assert passwords.verify(other, "secret")
    for passcode in ("pä⊕\N{PILE OF POO}", "\ud800", "nul\0inside"):
        assert passwords.verify(passwords.hash_passcode(passcode), passcode)


class TestRead:
    def test_users(self, path: Path) -> None:
        path.write_text("")
        assert read_users(path) == {}
        path.write_text(
            f"# people\n\nalice:{HASH}:ops, traders\n  \nbob bobson:{HASH}:\ncarol:{HASH} :x y,,\ndan:{HASH} \n"
        )
        assert read_users(path) == {
            "alice": StoredUser(HASH, frozenset({"ops", "traders"})),
            "bob bobson": StoredUser(HASH),
            "carol": StoredUser(HASH, frozenset({"x y"})),
            "dan": StoredUser(HASH),
        }

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (f"alice:{HASH}\nbob\n", "line 2 of {path} is not of the form user:hash or user:hash:group,group"),
            (f":{HASH}\n", "line 1 of {path} is not of the form user:hash or user:hash:group,group"),
            ("alice:secret\n", "line 1 of {path} holds no argon2 hash; write it with `gateway passwd`"),
            (f"alice:{HASH}\nalice:{HASH}\n", "line 2 of {path} names user 'alice' a second time"),
        ],
        ids=["no-colon", "no-user", "no-hash", "twice"],
    )
    def test_a_damaged_file_is_refused_and_never_written(self, path: Path, text: str, sentence: str) -> None:
        path.write_text(text)
        for act in (read_users, lambda path: write_user(path, "carol", HASH), lambda path: remove_user(path, "alice")):
            with pytest.raises(FileFault) as refusal:
                act(path)
            assert str(refusal.value) == sentence.format(path=path)
        assert path.read_text() == text

    def test_a_file_that_cannot_be_read(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(FileFault, match=r"cannot be read: No such file or directory$"):
            read_users(path)
        with pytest.raises(FileFault, match=r"cannot be read: Is a directory$"):
            read_users(tmp_path)
        path.write_bytes(b"\xff")
        with pytest.raises(FileFault, match=r"is not UTF-8 text$"):
            read_users(path)
        path.write_text(f"alice:{HASH}\n")
        with pytest.raises(FileFault, match="is larger than 10 bytes"):
            read_users(path, max_size=10)


class TestWrite:
    def test_the_other_lines_the_owner_and_a_link_stay(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = tmp_path / "target.txt"
        path.symlink_to(target)
        target.write_text(f"# people\nalice:{HASH}\n\nbob:{HASH}\n#alice:x")
        owners: list[tuple[int, int]] = []
        monkeypatch.setattr(os, "fchown", lambda _, user, group: owners.append((user, group)))
        other = passwords.hash_passcode("other")
        assert write_user(path, "alice", other) is True
        assert write_user(path, "carol", HASH) is False
        assert target.read_text() == f"# people\nalice:{other}\n\nbob:{HASH}\n#alice:x\ncarol:{HASH}\n"
        assert path.is_symlink()
        assert owners == [(path.stat().st_uid, path.stat().st_gid)] * 2

    def test_a_new_file_is_for_its_owner_and_groups_stay_unless_new_ones_are_given(self, path: Path) -> None:
        other = passwords.hash_passcode("other")
        assert write_user(path, "alice", HASH, ["traders", "ops"]) is False
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == f"alice:{HASH}:ops,traders\n"
        write_user(path, "alice", other)
        assert read_users(path) == {"alice": StoredUser(other, frozenset({"ops", "traders"}))}
        write_user(path, "alice", HASH, [])
        assert path.read_text() == f"alice:{HASH}\n"

    def test_a_failed_write_leaves_the_old_file_and_no_other(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_user(path, "alice", HASH)

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_user(path, "bob", HASH)
        assert read_users(path) == {"alice": StoredUser(HASH)}
        assert list(tmp_path.iterdir()) == [path]

    def test_remove(self, path: Path) -> None:
        text = f"# people\nalice:{HASH}:ops\n\nalice b:{HASH}\n#alice:x\n"
        path.write_text(text)
        for user in ("bob", "#alice", "", "al"):
            assert remove_user(path, user) is False
        assert path.read_text() == text
        assert remove_user(path, "alice") is True
        assert path.read_text() == f"# people\n\nalice b:{HASH}\n#alice:x\n"
        remove_user(path, "alice b")
        assert read_users(path) == {}


def test_names_that_are_refused_and_names_that_are_fine(path: Path) -> None:
    for user in ("", " alice", "alice\t", "a:b", "#alice", "a\nb", "a\0b", "x" * 1025, "ä" * 513):
        assert str(passwords.refuse_user(user)).startswith("a user's name must "), user
    for passcode in ("", "x" * 1025, "ä" * 513):
        assert passwords.refuse_passcode(passcode) == "a passcode must have 1 to 1024 bytes"
    for group in ("", " ops", "a,b", "a:b", "a\nb", "ops "):
        assert str(passwords.refuse_group(group)).startswith("a group's name must "), group
    for user in ("alice@example.org", "Ällice B. #1", "x" * 1024):
        assert passwords.refuse_user(user) is None
        path.unlink(missing_ok=True)
        write_user(path, user, HASH)
        assert read_users(path) == {user: StoredUser(HASH)}
    assert passwords.refuse_passcode("x" * 1024) is None
    assert passwords.refuse_group("the ops of Köln") is None
