"""Command line: `serve`, `edge`, `check-config`, `passwd` and `store`; other commands have modules of their own.

Each command imports only the modules that it needs: `gateway passwd` loads no event loop, and `gateway --help` none of
the commands: their lines stand here.  An error is one sentence on
standard error and status 1, never a traceback; `serve.py` has the statuses of `serve`.  The findings of `gateway store`
go to standard error, too, a sentence each: standard output belongs to the export.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

import click

import gateway

if TYPE_CHECKING:
    from gateway.config.settings import Settings


_LINES = {
    "acl": "Explain what the rules allow a user.",
    "archive": "Write the journal into Parquet files.",
    "check-config": "Check the settings, and print those in force.",
    "cluster": "Show a cluster, hand over, or give it a store.",
    "doctor": "Find what is wrong with a gateway or its proxy.",
    "edge": "Serve clients of a gateway on another machine.",
    "passwd": "Add, change, list or remove users.",
    "pipeline": "Make tables and reports of the archive, and replay it.",
    "push": "POST the messages of queues to URLs.",
    "relay": "Move messages from one STOMP server to another.",
    "send": "Send a message, or one for each line of input.",
    "serve": "Run the gateway.",
    "store": "Copy, check, export or import the store.",
    "subscribe": "Print the messages of queues and topics.",
    "top": "Watch rates, destinations and sessions in the terminal.",
}
"""What `gateway --help` says of each command."""


_NO_USER = "write FILE and USER, like `gateway passwd users.txt alice`; --list shows all users"

_MEANT = {
    "serve": ("start", "run", "server", "up"),
    "top": ("status", "stats", "list", "queues"),
    "check-config": ("check", "config", "validate"),
    "send": ("publish", "pub"),
    "subscribe": ("consume", "receive", "listen", "sub", "read"),
    "passwd": ("user", "users", "adduser", "password"),
}
"""Commands, and words for them that other programs have."""


class _OfSettings(click.Command):
    """A command that settings control, and few options or none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            from gateway.config.toml_file import config_file

            where = f"settings stand in {config_file()}, or in variables"
            raise click.UsageError(f"{error.format_message().rstrip('.')}: {where} (docs/settings.md)", ctx) from None


class _Commands(click.Group):
    """The commands of this file, and those that are imported at their first use."""

    elsewhere: ClassVar = {
        "acl": "gateway.cli.acl",
        "archive": "gateway.archive.command",
        "cluster": "gateway.cli.cluster",
        "doctor": "gateway.doctor.command",
        "pipeline": "gateway.pipeline.command",
        "push": "gateway.push.command",
        "relay": "gateway.relay.command",
        "send": "gateway.cli.send",
        "subscribe": "gateway.cli.subscribe",
        "top": "gateway.cli.top",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.elsewhere])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.elsewhere:
            return super().get_command(ctx, cmd_name)
        found: click.Command = getattr(importlib.import_module(self.elsewhere[cmd_name]), cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            meant = [command for command, words in _MEANT.items() if name in words]
            meant = meant or difflib.get_close_matches(name, self.list_commands(ctx), 1)
            ctx.fail(f"there is no command {name!r}" + (f"; did you mean {meant[0]}?" if meant else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _LINES[name]) for name in self.list_commands(ctx)])


class _StoreCommands(click.Group):
    """The commands on a store; that of a running gateway is imported at its first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "backup"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "backup":
            return super().get_command(ctx, cmd_name)
        from gateway.cli.backup import backup

        return backup


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gateway.__version__, prog_name="gateway", message="%(prog)s %(version)s")
def main() -> None:
    """A STOMP broker for browsers over WebSocket and workers over TCP."""


@main.command(cls=_OfSettings)
def serve() -> None:
    """Run the gateway with its HTTP side until SIGTERM or Ctrl-C, then drain.

    Its settings stand in gateway.toml, or in variables: see `gateway check-config`.

    Exit status: 0 after a drain, 1 when it did not start, 70 when it failed.
    """
    _serve(_load)


_OF_EDGE = {
    "edge_of": ("--of", "the edge_listen of its primary"),
    "edge_certificate": ("--certificate", "the file of this machine's certificate"),
    "edge_key": ("--key", "the file of its key"),
    "edge_ca": ("--ca", "the file of the authority that signs both ends"),
}
"""Settings that an edge must have, with their options."""


@main.command(cls=_OfSettings)
@click.option("--of", "edge_of", multiple=True, metavar="ADDRESS", help="Setting edge_of: the primary; repeatable.")
@click.option("--config", metavar="FILE", help="The file of all settings, instead of gateway.toml.")
@click.option("--certificate", "edge_certificate", metavar="FILE", help="Setting edge_certificate.")
@click.option("--key", "edge_key", metavar="FILE", help="Setting edge_key.")
@click.option("--ca", "edge_ca", metavar="FILE", help="Setting edge_ca.")
def edge(config: str | None, **given: str | Sequence[str] | None) -> None:
    """Run an edge: as `gateway serve`, but its clients are those of a gateway on another machine.

    An option counts more than the variable and the file.

    Exit status: as of `gateway serve`.
    """
    # As variables, for all that reads settings now and at a reload.
    variables = {f"GATEWAY_{name.upper()}": value for name, value in {"config": config, **given}.items() if value}
    os.environ.update({name: each if isinstance(each, str) else ",".join(each) for name, each in variables.items()})
    _serve(_load_edge)


def _load_edge() -> Settings:
    from gateway.config import toml_file
    from gateway.config.errors import Sources

    with _one_sentence(toml_file.SettingsError):
        sources = Sources(toml_file.read())
    missing = {name: said for name, said in _OF_EDGE.items() if sources.of(name) == "default"}
    if missing:
        wanted = ", ".join([f"{name} ({meaning})" for name, (_, meaning) in missing.items()])
        options = ", ".join([option for option, _ in missing.values()])
        raise click.ClickException(
            f"an edge needs {wanted}: write it into {toml_file.config_file()}, or give {options}; docs/edges.md tells "
            "how to make the files"
        )
    settings = _load()
    if settings.cluster:
        raise click.ClickException("cluster is set, and a node of a cluster has edges of its own: run `gateway serve`")
    if not settings.edge_of:
        raise click.ClickException(f"{sources.place('edge_of')} is empty: write the address of the primary")
    return settings


def _serve(load: Callable[[], Settings]) -> NoReturn:
    """Run the gateway, and end with its status."""
    # A SIGHUP before the gateway catches it must not end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    gc.disable()  # until the gateway runs: see `App`
    try:
        settings = load()
        from gateway.cli.serve import run
        from gateway.config.errors import StartError

        with _one_sentence(StartError):
            status = run(settings)
    finally:
        gc.enable()
    sys.exit(status)


@main.command("check-config", cls=_OfSettings)
@click.option("--bind", is_flag=True, help="Also try to open every port.")
@click.option("--list", "list_names", is_flag=True, help="List every setting: name, variable, default.")
@click.option("--hypercorn", is_flag=True, help="Print only hypercorn's options for the addresses of `http`.")
def check_config(bind: bool, list_names: bool, hypercorn: bool) -> None:
    """Print the settings in force, as lines of gateway.toml, each with its source.

    Exit status: 1 when a setting is wrong.
    """
    from gateway.config import reference

    if list_names:
        for line in reference.listed():
            click.echo(line)
        return
    settings = _load()
    _check_files(settings)
    for line in [_hypercorn_options(settings)] if hypercorn else reference.in_force(settings):
        click.echo(line)
    if bind:
        _check_ports(settings)
    if not hypercorn:
        click.echo()
        for line in [*reference.summary(settings), *["# All ports are free."] * bind]:
            click.echo(line)


def _hypercorn_options(settings: Settings) -> str:
    """Options of hypercorn's command, quoted for a shell."""
    from gateway.config.settings import LISTENERS, Address

    every = [address for name in LISTENERS for address in map(Address.parse, getattr(settings, name))]
    if any(address.name for address in every):
        return "--config python:gateway.cli.sockets.options"  # which has `http`, too
    # In full, because hypercorn reads `:8000` as all addresses of the machine.
    return shlex.join([word for text in settings.http for word in ("--bind", str(Address.parse(text)))])


def _check_files(settings: Settings) -> None:
    """Read users, keys, functions, store and certificates; warnings go to standard error.

    The store is not opened, because a gateway may be running with it.
    """
    from gateway import auth
    from gateway.config.errors import StartError
    from gateway.config.settings import SettingsError, unusable, wrong
    from gateway.handlers import HandlersError, load
    from gateway.runtime.listeners import read_certificates, warnings
    from gateway.stores import StoreError, preflight

    with _one_sentence(SettingsError):
        auth.for_settings(settings)
    with _one_sentence(HandlersError, say=partial(wrong, "handlers")):
        if settings.handlers:
            load(settings.handlers)
    with _one_sentence(StoreError, say=partial(unusable, "store")):
        preflight.look(settings.store)
    warning = preflight.unkept(settings.policy_by_pattern)
    if warning and settings.store == "memory":
        click.echo(f"Warning: {warning}", err=True)
    with _one_sentence(StartError):
        certificates = read_certificates(settings)
        if settings.edge_certificate is not None:
            from gateway.runtime.remote_edges import context

            context(settings, of_primary=not settings.is_edge)
    if certificates is not None:
        hosts = ", ".join(certificates.hosts) or "no host"
        click.echo(f"The certificate is for {hosts}, and good until {certificates.end_date}.", err=True)
    for warning in warnings(settings, certificates):
        click.echo(f"Warning: {warning}", err=True)


def _load() -> Settings:
    from gateway.config.settings import SettingsError, load

    with _one_sentence(SettingsError):
        return load()


@contextmanager
def _one_sentence(*kinds: type[Exception], say: Callable[[Exception], str] = str) -> Iterator[None]:
    """End the command with the sentence of an error of these kinds."""
    try:
        yield
    except kinds as error:
        raise click.ClickException(say(error)) from None


def _check_ports(settings: Settings) -> None:
    """Open all ports at the same time, because two settings may name the same, and close them."""
    import trio

    from gateway.config.errors import StartError
    from gateway.config.values import Address
    from gateway.runtime.listeners import KINDS, open_all
    from gateway.transports import unlinking

    async def open_and_close() -> None:
        async with AsyncExitStack() as stack:
            for setting in (*KINDS, "http"):
                # Sockets of systemd exist only in a process that systemd has started.
                texts = [text for text in getattr(settings, setting) if not Address.parse(text).name]
                listening = await open_all(setting, texts)
                stack.enter_context(unlinking(listening.addresses))
                for listener in listening.listeners:
                    await stack.enter_async_context(listener)

    with _one_sentence(StartError):
        trio.run(open_and_close)


@main.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("user", required=False)
@click.option("--list", "listed", is_flag=True, help="List the users of FILE with their groups.")
@click.option("--remove", is_flag=True, help="Remove USER from FILE.")
@click.option("--group", "groups", multiple=True, help="A group of USER, for rules; repeatable.")
@click.option(
    "--no-groups", is_flag=True, help="Remove USER from all groups.  Without either option, groups stay as they are."
)
def passwd(file: Path, user: str | None, listed: bool, remove: bool, groups: tuple[str, ...], no_groups: bool) -> None:
    """Add or change USER in the users file FILE, with the hash of a passcode; or remove a user, or list all.

    Asks for the passcode twice on a terminal; otherwise reads it from one line of standard input.  A running gateway
    applies the change at the next login; at SIGHUP it also ends sessions of removed users and changed passcodes.
    """
    asked = {"--list": listed, "--remove": remove, "--group": bool(groups), "--no-groups": no_groups}
    given = [name for name, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise click.ClickException(f"{given[0]} and {given[1]} contradict each other")
    if listed is (user is not None):
        raise click.ClickException("--list names all users: leave USER out" if listed else _NO_USER)
    from gateway.auth import passwords
    from gateway.files import FileFault

    try:
        if user is None:
            for name, found in sorted(passwords.read_users(file).items()):
                click.echo("\t".join([name, ",".join(sorted(found.groups))]).rstrip("\t"))
        elif not remove:
            _write_user(file, user, () if no_groups else groups or None)
        elif passwords.remove_user(file, user):
            click.echo(f"removed user {user} from {file}")
        else:
            raise click.ClickException(f"{file} has no user {user!r}; --list shows all users")
    except FileFault as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from None


def _write_user(file: Path, user: str, groups: tuple[str, ...] | None) -> None:
    from gateway.auth import passwords

    reason = next(filter(None, [passwords.refuse_user(user), *map(passwords.refuse_group, groups or ())]), None)
    if reason is None:
        passcode = _ask_passcode()
        reason = passwords.refuse_passcode(passcode)
    if reason is not None:
        raise click.ClickException(reason)
    known = passwords.write_user(file, user, passwords.hash_passcode(passcode), groups)
    click.echo(f"{'changed' if known else 'added'} user {user} in {file}")


def _ask_passcode() -> str:
    if sys.stdin.isatty():
        asked: str = click.prompt("Passcode", hide_input=True, confirmation_prompt="Passcode again")
        return asked
    return sys.stdin.readline().removesuffix("\n").removesuffix("\r")


@main.group(cls=_StoreCommands)
def store() -> None:
    """Copy the store of a running gateway; or check, export or import one that no gateway has open.

    FILE is the file of the store; by default the one of the setting `store`.  For `backup` it is the copy.
    """


@store.command("check")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def check_store(file: Path | None) -> None:
    """Read the whole store, and report its faults.

    Exit status: 0 when it is whole; 1 with a sentence for each fault.
    """
    from gateway.stores import StoreError, tools

    path = _store_path(file)
    with _one_sentence(StoreError):
        findings = tools.check(path)
    _tell(findings)
    click.echo(f"{path} is whole")


@store.command("export")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def export_store(file: Path | None) -> None:
    """Write the store to standard output, as lines of JSON.

    Exit status: 0 when the export is complete; 1 with a sentence for each loss.
    """
    from gateway.stores import StoreError, tools

    path = _store_path(file)
    with _one_sentence(StoreError):
        try:
            missing = tools.export(path, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:
            raise  # the reader has stopped: click ends quietly then
        except OSError as error:
            raise click.ClickException(f"the export cannot be written: {error.strerror}") from None
    _tell(missing)


@store.command("import")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def import_store(file: Path | None) -> None:
    """Make a new store of an export, which is read from standard input.

    Exit status: 0 when the store has all of it; 1 with a sentence for each loss, or with the reason why there is no new
    store.
    """
    from gateway.stores import StoreError, tools

    path = _store_path(file)
    with _one_sentence(StoreError):
        try:
            left_out = tools.import_(path, map(bytes.decode, sys.stdin.buffer))
        except UnicodeDecodeError:
            raise click.ClickException("standard input is not an export: it is not UTF-8") from None
    click.echo(f"made {path}")
    _tell(left_out)


def _store_path(file: Path | None) -> Path:
    if file is not None:
        return file
    kind, _, path = _load().store.partition(":")
    if kind != "sqlite":
        raise click.ClickException("name the file: the setting store is memory")
    return Path(path)


def _tell(findings: Sequence[str]) -> None:
    """Print sentences on standard error, and end with status 1 if there are any."""
    for finding in findings:
        click.echo(finding, err=True)
    if findings:
        sys.exit(1)
