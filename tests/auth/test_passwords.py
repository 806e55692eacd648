"""The users file: reading, writing, and what is refused."""

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


class TestHashes:
    def test_round_trip(self) -> None:
        assert passwords.verify(HASH, "secret")
        assert not passwords.verify(HASH, "Secret")

    def test_salted(self) -> None:
        assert passwords.hash_passcode("secret") != HASH

    def test_argon2id_of_at_least_owasp_cost(self) -> None:
        found = argon2.extract_parameters(HASH)
        assert found.type is argon2.Type.ID
        assert found.memory_cost >= 19 * 1024
        assert found.time_cost >= 2

    def test_hashes_with_other_parameters_verify(self) -> None:
        other = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=2).hash("secret")
        assert passwords.verify(other, "secret")

    def test_no_hash_at_all(self) -> None:
        assert not passwords.verify("plain text", "plain text")

    def test_unicode_and_lone_surrogates(self) -> None:
        for passcode in ("pä⊕\N{PILE OF POO}", "\ud800", "nul\0inside"):
            assert passwords.verify(passwords.hash_passcode(passcode), passcode)


class TestRead:
    def test_comments_and_empty_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"# people\n\nalice:{HASH}\n  \nbob bobson:{HASH} \n")
        assert read_users(path) == {"alice": StoredUser(HASH), "bob bobson": StoredUser(HASH)}

    def test_groups(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"alice:{HASH}:ops, traders\nbob:{HASH}:\ncarol:{HASH} :x y,,\n")
        assert read_users(path) == {
            "alice": StoredUser(HASH, frozenset({"ops", "traders"})),
            "bob": StoredUser(HASH),
            "carol": StoredUser(HASH, frozenset({"x y"})),
        }

    def test_empty(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.touch()
        assert read_users(path) == {}

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
    def test_damage_names_the_line(self, tmp_path: Path, text: str, sentence: str) -> None:
        path = tmp_path / "users.txt"
        path.write_text(text)
        with pytest.raises(FileFault) as refusal:
            read_users(path)
        assert str(refusal.value) == sentence.format(path=path)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(FileFault, match=r"cannot be read: No such file or directory$"):
            read_users(tmp_path / "users.txt")

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(FileFault, match=r"cannot be read: Is a directory$"):
            read_users(tmp_path)

    def test_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_bytes(b"\xff")
        with pytest.raises(FileFault, match=r"is not UTF-8 text$"):
            read_users(path)

    def test_too_large(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"alice:{HASH}\n")
        with pytest.raises(FileFault, match="is larger than 10 bytes"):
            read_users(path, max_size=10)


class TestWrite:
    def test_a_new_file_is_for_its_owner_only(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        assert write_user(path, "alice", HASH) is False
        assert read_users(path) == {"alice": StoredUser(HASH)}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_changing_one_line_keeps_the_others(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"# people\nalice:{HASH}\n\nbob:{HASH}\n#alice:x\n")
        other = passwords.hash_passcode("other")
        assert write_user(path, "alice", other) is True
        assert path.read_text() == f"# people\nalice:{other}\n\nbob:{HASH}\n#alice:x\n"

    def test_groups_stay_unless_others_are_given(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        other = passwords.hash_passcode("other")
        assert write_user(path, "alice", HASH, ["traders", "ops"]) is False
        assert path.read_text() == f"alice:{HASH}:ops,traders\n"
        write_user(path, "alice", other)
        assert read_users(path) == {"alice": StoredUser(other, frozenset({"ops", "traders"}))}
        write_user(path, "alice", HASH, ["new"])
        assert read_users(path) == {"alice": StoredUser(HASH, frozenset({"new"}))}
        write_user(path, "alice", HASH, [])
        assert path.read_text() == f"alice:{HASH}\n"

    def test_a_last_line_without_newline(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"bob:{HASH}")
        write_user(path, "alice", HASH)
        assert set(read_users(path)) == {"alice", "bob"}

    def test_a_link_stays_a_link(self, tmp_path: Path) -> None:
        target, link = tmp_path / "target.txt", tmp_path / "users.txt"
        link.symlink_to(target)
        write_user(link, "alice", HASH)
        assert link.is_symlink()
        assert read_users(target) == {"alice": StoredUser(HASH)}

    def test_the_owner_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "users.txt"
        write_user(path, "alice", HASH)
        owners: list[tuple[int, int]] = []
        monkeypatch.setattr(os, "fchown", lambda _, user, group: owners.append((user, group)))
        write_user(path, "bob", HASH)
        assert owners == [(path.stat().st_uid, path.stat().st_gid)]

    def test_a_damaged_file_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text("nonsense\n")
        with pytest.raises(FileFault, match="line 1"):
            write_user(path, "alice", HASH)
        assert path.read_text() == "nonsense\n"

    def test_a_failed_write_leaves_the_old_file_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "users.txt"
        write_user(path, "alice", HASH)

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_user(path, "bob", HASH)
        assert read_users(path) == {"alice": StoredUser(HASH)}
        assert [each.name for each in tmp_path.iterdir()] == ["users.txt"]


class TestRemove:
    def test_every_other_line_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"# people\nalice:{HASH}:ops\n\nalice b:{HASH}\n#alice:x\n")
        assert remove_user(path, "alice") is True
        assert path.read_text() == f"# people\n\nalice b:{HASH}\n#alice:x\n"

    def test_nobody_of_that_name(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"#bob:{HASH}\nalice:{HASH}")
        for user in ("bob", "#bob", "", "al"):
            assert remove_user(path, user) is False
        assert path.read_text() == f"#bob:{HASH}\nalice:{HASH}"

    def test_the_last_one(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        write_user(path, "alice", HASH)
        remove_user(path, "alice")
        assert path.read_bytes() == b""
        assert read_users(path) == {}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_damaged_file_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "users.txt"
        path.write_text(f"alice:{HASH}\nnonsense\n")
        with pytest.raises(FileFault, match="line 2"):
            remove_user(path, "alice")
        assert path.read_text() == f"alice:{HASH}\nnonsense\n"


@pytest.mark.parametrize("user", ["", " alice", "alice\t", "a:b", "#alice", "a\nb", "a\0b", "x" * 1025, "ä" * 513])
def test_names_that_are_refused(user: str) -> None:
    reason = passwords.refuse_user(user)
    assert reason is not None
    assert reason.startswith("a user's name must ")


@pytest.mark.parametrize("user", ["alice", "alice@example.org", "Ällice B. #1", "x" * 1024])
def test_names_that_are_fine(user: str, tmp_path: Path) -> None:
    assert passwords.refuse_user(user) is None
    write_user(tmp_path / "users.txt", user, HASH)
    assert read_users(tmp_path / "users.txt") == {user: StoredUser(HASH)}


def test_passcodes() -> None:
    assert passwords.refuse_passcode("x" * 1024) is None
    for passcode in ("", "x" * 1025, "ä" * 513):
        assert passwords.refuse_passcode(passcode) == "a passcode must have 1 to 1024 bytes"


@pytest.mark.parametrize("group", ["", " ops", "a,b", "a:b", "a\nb", "ops "])
def test_groups_that_are_refused(group: str) -> None:
    reason = passwords.refuse_group(group)
    assert reason is not None
    assert reason.startswith("a group's name must ")


def test_groups_that_are_fine() -> None:
    assert passwords.refuse_group("the ops of Köln") is None
