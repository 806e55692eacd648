"""The command line: what it prints, its statuses, and that no error is a traceback."""

from __future__ import annotations

import os
import pty
import shlex
import socket
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from gateway.auth import passwords
from gateway.cli import main, serve
from gateway.config.settings import Settings, load
from gateway.runtime.gateway import StartError

HASH = passwords.hash_passcode("secret")


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("GATEWAY_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, stdin: str | None = None, **variables: str) -> Result:
    environment = {f"GATEWAY_{name.upper()}": value for name, value in variables.items()}
    return CliRunner().invoke(main.main, arguments, input=stdin, env=environment)


def refused(result: Result) -> str:
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def test_serve_passes_on_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int | StartError] = [0, 70, StartError("cannot listen on 127.0.0.1:1")]

    def serve_nothing(settings: Settings) -> int:
        assert settings.max_headers == 77
        answer = found.pop(0)
        if isinstance(answer, StartError):
            raise answer
        return answer

    monkeypatch.setattr(serve, "run", serve_nothing)
    assert [run("serve", max_headers="77").exit_code for _ in range(2)] == [0, 70]
    assert refused(run("serve", max_headers="77")) == "cannot listen on 127.0.0.1:1"
    assert refused(run("serve", tcp="foo")).startswith("tcp (GATEWAY_TCP) is wrong")


class TestEdge:
    OPTIONS = ("--certificate", "c.pem", "--key", "c.key", "--ca", "ca.pem")

    @pytest.fixture(autouse=True)
    def _no_variable_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "environ", os.environ.copy())

    def test_options_are_settings(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "edge.toml").write_text('edge_of = "elsewhere:1"\nmax_headers = 77\nedge_key = "other.key"\n')
        found: list[Settings] = []
        monkeypatch.setattr(serve, "run", lambda settings: found.append(settings) or 70)  # type: ignore[func-returns-value]
        result = run("edge", "--of", "a:1", "--of", "b:2", "--config", "edge.toml", *self.OPTIONS)
        assert (result.exit_code, result.output) == (70, "")
        assert (found[0].edge_of, found[0].max_headers) == (["a:1", "b:2"], 77)
        assert (found[0].edge_key, found[0].edge_ca) == (Path("c.key"), Path("ca.pem"))
        assert load().edge_of == found[0].edge_of, "a reload reads the same settings"

    def test_what_is_missing(self) -> None:
        assert refused(run("edge", "--of", "a:1", edge_ca="ca.pem")) == (
            "an edge needs edge_certificate (the file of this machine's certificate), edge_key (the file of its key): "
            "write it into gateway.toml, or give --certificate, --key; docs/edges.md tells how to make the files"
        )

    def test_an_address_that_is_empty(self, tmp_path: Path) -> None:
        (tmp_path / "edge.toml").write_text('edge_of = ""')
        said = refused(run("edge", "--config", "edge.toml", *self.OPTIONS))
        assert said == "edge.toml line 1: edge_of is empty: write the address of the primary"

    def test_what_an_edge_cannot_have(self) -> None:
        assert "a node of a cluster has edges" in refused(
            run("edge", "--of", "a:1", *self.OPTIONS, cluster="a", store="sqlite:s.db", edge_listen="c:1")
        )
        said = refused(run("edge", "--of", "a:1", *self.OPTIONS, store="sqlite:s.db"))
        assert "leave it out here; store is sqlite:s.db (GATEWAY_STORE)" in said

    def test_a_file_that_is_not_there(self) -> None:
        said = refused(run("check-config", edge_of="a:1", edge_certificate="c.pem", edge_key="c.key", edge_ca="ca.pem"))
        place, _, reason = said.partition(" cannot be used: ")
        assert place == "edge_certificate (GATEWAY_EDGE_CERTIFICATE)"
        assert reason == "c.pem cannot be read: No such file or directory"


HEAVY = {"trio", "pydantic", "starlette", "hypercorn", "rich.traceback", "gateway.broker.broker"}


@pytest.mark.parametrize(
    ("calls", "heavy"),
    [
        (
            [["--help"]],
            {*HEAVY, "asyncio", "structlog", "rich", "ssl", "gateway.config", "gateway.client"},
        ),
        ([[name, "--help"] for name in main.main.list_commands(click.Context(main.main))], HEAVY),
        ([["passwd", "users.txt", "alice"]], HEAVY),
        ([["check-config", "--list"]], HEAVY - {"pydantic"}),
    ],
    ids=["help", "help of each", "passwd", "settings"],
)
def test_commands_import_what_they_need(tmp_path: Path, calls: list[list[str]], heavy: set[str]) -> None:
    """Counted in modules, because times differ from machine to machine."""
    code = f"import sys; from gateway.cli.main import main\nfor call in {calls}: main(call, standalone_mode=False)\n"
    command = [sys.executable, "-c", f"{code}print(sorted({heavy} & set(sys.modules)))"]
    done = subprocess.run(command, input="secret\n", capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("modules", ["gateway.cli.serve, gateway.admin.site", "gateway.edge_process"])
def test_a_gateway_imports_no_rich(modules: str) -> None:
    code = f"import sys, {modules}; print({{'rich'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr


def test_the_help_has_a_whole_line_for_each_command() -> None:
    told = run("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in told] == main.main.list_commands(click.Context(main.main))
    assert all(line.endswith(".") and not line.endswith("...") for line in told)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("start", "there is no command 'start'; did you mean serve?"),
        ("sned /queue/a", "there is no command 'sned'; did you mean send?"),
        ("foo", "there is no command 'foo'\n"),
        ("serve --port 1", "No such option '--port': settings stand in other.toml, or"),
        ("check-config x.toml", "Got unexpected extra argument (x.toml): settings stand in other.toml, or"),
    ],
)
def test_commands_that_may_be_meant(words: str, sentence: str) -> None:
    result = run(*words.split(), config="other.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Error: {sentence}" in result.stderr


class TestCheckConfig:
    def test_what_is_in_force(self, tmp_path: Path) -> None:
        (tmp_path / "gateway.toml").write_text("max_headers = 20\n")
        result = run("check-config", admin_token="sesame")
        assert result.exit_code == 0
        assert 'tcp = ["127.0.0.1:61613"] ' in result.stdout
        assert "max_headers = 20 " in result.stdout
        assert "sesame" not in result.output
        result = run("check-config", "--list", tcp="foo")
        assert (result.exit_code, len(result.stdout.splitlines())) == (0, len(Settings.model_fields))

    def test_it_ends_with_a_summary(self, tmp_path: Path) -> None:
        memory = 'messages are kept in memory only, and a restart loses them; write store = "sqlite:store.db" into'
        assert run("check-config").stdout.splitlines()[-6:] == [
            "",
            f"# Store: {memory} gateway.toml.",
            "# Authenticators: none, so every client may connect under any name.",
            "# Rules: none, so every client may do everything.",
            "# Admin API: every program on this machine.",
            "# Other machines can reach: nothing.",
        ]
        passwords.write_user(tmp_path / "users.txt", "alice", HASH)
        (tmp_path / "gateway.toml").write_text(
            'users_file = "users.txt"\n[[rule]]\ndestination = "**"\nallow = ["send"]\n'
        )
        result = run(
            "check-config", tcp="127.0.0.1:1,0.0.0.0:2", http="[::]:3", admin_token="sesame", admin_groups="ops,dev"
        )
        assert result.stdout.splitlines()[-4:] == [
            "# Authenticators: users_file.",
            "# Rules: 1.",
            "# Admin API: clients with the admin token, and users of ops, dev.",
            "# Other machines can reach: tcp 0.0.0.0:2, http [::]:3.",
        ]
        through = run("check-config", trusted_proxies="127.0.0.1")
        assert through.stdout.splitlines()[-1] == "# Other machines can reach: nothing directly."
        assert "every program on this machine may use the admin API" in through.stderr

    def test_authenticators(self, tmp_path: Path) -> None:
        passwords.write_user(tmp_path / "users.txt", "alice", HASH)
        assert run("check-config", users_file="users.txt").exit_code == 0
        (tmp_path / "users.txt").write_text("alice:secret\n")
        sentence = refused(run("check-config", users_file="users.txt"))
        assert sentence.startswith("users_file (GATEWAY_USERS_FILE) is wrong: line 1 of users.txt")
        assert "secret" not in sentence
        assert refused(run("check-config", cookie_keys="nowhere")).startswith("cookie_keys (GATEWAY_COOKIE_KEYS) is")
        sentence = refused(run("check-config", authenticator="nowhere:ask"))
        assert sentence.startswith("authenticator (GATEWAY_AUTHENTICATOR) is wrong: cannot import nowhere")

    def test_the_line_of_what_is_wrong_later(self, tmp_path: Path) -> None:
        config = tmp_path / "gateway.toml"
        config.write_text('max_headers = 20\nusers_file = "nowhere"\n')
        sentence = refused(run("check-config"))
        assert sentence == "gateway.toml line 2: users_file is wrong: nowhere cannot be read: No such file or directory"
        config.write_text('\n\nhandlers = "nowhere:a"\n')
        assert refused(run("check-config")).startswith("gateway.toml line 3: handlers is wrong: cannot import nowhere")

    def test_for_hypercorn(self) -> None:
        result = run("check-config", "--hypercorn", http="[::1]:1,unix:/a b;c")
        assert (result.exit_code, result.stdout.count("\n")) == (0, 1)
        assert shlex.split(result.stdout) == ["--bind", "[::1]:1", "--bind", "unix:/a b;c"]
        assert refused(run("check-config", "--hypercorn", tcp="foo")).startswith("tcp (GATEWAY_TCP) is wrong")

    def test_store(self, tmp_path: Path) -> None:
        assert f'store = "sqlite:{tmp_path}/store.db" ' in run("check-config", store="sqlite:store.db").stdout
        assert list(tmp_path.iterdir()) == []
        sentence = refused(run("check-config", store="sqlite:no/store.db"))
        assert sentence.startswith(
            "store (GATEWAY_STORE) cannot be used: no/store.db cannot be made: there is no folder"
        )

    def test_bind_names_what_is_taken(self, tmp_path: Path) -> None:
        free = {"tcp": "127.0.0.1:0", "websocket": f"unix:{tmp_path / 'ws'}", "http": "[::1]:0"}
        result = run("check-config", "--bind", **free)
        assert (result.stdout.splitlines()[-1], list(tmp_path.iterdir())) == ("# All ports are free.", [])
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for setting in free:
                result = run("check-config", "--bind", **free | {setting: address})
                assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
                assert address in result.stderr
                assert f"GATEWAY_{setting.upper()}" in result.stderr
        result = run("check-config", "--bind", tcp=address, websocket=address, http="127.0.0.1:0")
        assert (result.exit_code, "GATEWAY_WEBSOCKET" in result.stderr) == (1, True), "the same port twice"


class TestPasswd:
    def test_add_and_change(self, tmp_path: Path) -> None:
        result = run("passwd", "users.txt", "alice", stdin="secret\n")
        assert (result.exit_code, result.stdout) == (0, "added user alice in users.txt\n")
        result = run("passwd", "users.txt", "alice", stdin=" ot her \r\nmore\n")  # one line, without its end
        assert (result.exit_code, result.stdout) == (0, "changed user alice in users.txt\n")
        users = passwords.read_users(tmp_path / "users.txt")
        assert passwords.verify(users["alice"].hashed, " ot her ")
        assert stat.S_IMODE((tmp_path / "users.txt").stat().st_mode) == 0o600

    def test_refusals(self, tmp_path: Path) -> None:
        for user, stdin, sentence in (
            ("a:b", "secret\n", "a user's name must not have a colon"),
            ("alice", "\n", "a passcode must have 1 to 1024 bytes"),
            ("alice", "x" * 1025, "a passcode must have 1 to 1024 bytes"),
        ):
            assert refused(run("passwd", "users.txt", user, stdin=stdin)).startswith(sentence)
        for arguments, sentence in (
            (("--list", "--remove"), "--list and --remove contradict each other"),
            (("alice", "--remove", "--group", "ops"), "--remove and --group contradict each other"),
            (("alice", "--group", "a", "--no-groups"), "--group and --no-groups contradict each other"),
            (("alice", "--list"), "--list names all users: leave USER out"),
            (("--remove",), "write FILE and USER, like `gateway passwd users.txt alice`; --list shows all users"),
            (("alice", "--remove"), "users.txt cannot be read: No such file or directory"),
        ):
            assert refused(run("passwd", "users.txt", *arguments, stdin="secret\n")) == sentence
        assert list(tmp_path.iterdir()) == []
        sentence = refused(run("passwd", "nowhere/users.txt", "alice", stdin="x\n"))
        assert sentence == "nowhere/users.txt cannot be written: No such file or directory"
        (tmp_path / "users.txt").write_text("nonsense\n")
        assert refused(run("passwd", "users.txt", "alice", stdin="x\n")).startswith("line 1 of ")

    def test_users_are_listed_and_removed_and_groups_stay(self, tmp_path: Path) -> None:
        run("passwd", "users.txt", "bob", "--group", "traders", "--group", "ops", stdin="secret\n")
        run("passwd", "users.txt", "alice", stdin="secret\n")
        before = (tmp_path / "users.txt").read_bytes()
        result = run("passwd", "users.txt", "--list")
        assert (result.exit_code, result.stdout) == (0, "alice\nbob\tops,traders\n")
        assert (tmp_path / "users.txt").read_bytes() == before
        run("passwd", "users.txt", "bob", stdin="other\n")
        assert run("passwd", "users.txt", "--list").stdout == "alice\nbob\tops,traders\n"
        run("passwd", "users.txt", "bob", "--no-groups", stdin="other\n")
        assert run("passwd", "users.txt", "--list").stdout == "alice\nbob\n"
        result = run("passwd", "users.txt", "alice", "--remove")
        assert (result.exit_code, result.stdout) == (0, "removed user alice from users.txt\n")
        assert list(passwords.read_users(tmp_path / "users.txt")) == ["bob"]
        sentence = refused(run("passwd", "users.txt", "alice", "--remove"))
        assert sentence == "users.txt has no user 'alice'; --list shows all users"

    def test_on_a_terminal_it_asks_twice_and_shows_nothing(self, tmp_path: Path) -> None:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "gateway", "passwd", "users.txt", "alice"]
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, start_new_session=True
        )
        os.close(theirs)
        shown = b""
        answers = iter([b"secret\n", b"secret too\n", b"secret\n", b"secret\n"])
        try:
            while chunk := _read(ours):
                shown += chunk
                if chunk.rstrip().endswith(b":"):
                    os.write(ours, next(answers))
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        assert (b"secret" in shown, b"do not match" in shown) == (False, True)
        assert passwords.verify(passwords.read_users(tmp_path / "users.txt")["alice"].hashed, "secret")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
