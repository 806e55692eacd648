"""docs/commands.md, made of the commands themselves: `python -m docs.generate.commands`."""

from __future__ import annotations

import copy
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator

import click

_HEAD = """# Commands

Made of `gateway --help` by `make docs`. Every command has `--help`. Behind its words stand its arguments, and then its
options, with defaults in brackets. Exit status 1 comes with a sentence; 2 says that the command line is wrong.
"""

Said = tuple[str, str]
"""An option as its help shows it: names and text."""


def page(main: click.Command) -> str:
    """The whole page, in Markdown."""
    return "\n".join([_HEAD, *_of(click.Context(main, info_name="gateway", **main.context_settings))])


def _of(context: click.Context) -> Iterator[str]:
    """A command, and those below it."""
    command = context.command
    path = context.command_path
    depth = len(path.split())
    if not isinstance(command, click.Group):
        yield f"{'#' * depth} {path}\n\n{inspect.cleandoc(command.help or '')}\n"
        if shown := "\n\n".join(_shown(context)):
            yield f"{textwrap.indent(shown, '    ')}\n"
        return
    if depth > 1:
        yield f"{'#' * depth} {path}\n\n{inspect.cleandoc(command.help or '')}\n"
    below = [each for name in command.list_commands(context) if not (each := _context(context, name)).command.hidden]
    shared = _shared([each for each in below if not isinstance(each.command, click.Group)])
    if shared:
        yield from _listed(shared, depth + 1)
    for each in below:
        yield from _of(_without(each, set(shared)))


def _shown(context: click.Context) -> Iterator[str]:
    """Arguments and options of a command, where it has any."""
    command = context.command
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    if arguments:
        yield " ".join([piece for each in arguments for piece in each.get_usage_pieces(context)])
    options: dict[Said, list[str]] = defaultdict(list)  # kind of value, and text -> names
    for each in command.params:
        if (said := _said(each, context)) is not None:
            names, _, kind = said[0].partition(" ")
            options[kind, said[1]].append(names)
    if options:
        formatter = context.make_formatter()
        formatter.write_dl([(f"{', '.join(names)} {kind}".strip(), text) for (kind, text), names in options.items()])
        yield formatter.getvalue().rstrip()


def _context(parent: click.Context, name: str) -> click.Context:
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, name)
    assert command is not None  # it is on the list
    return click.Context(command, info_name=name, parent=parent)


def _shared(contexts: list[click.Context]) -> dict[Said, list[str]]:
    """Options that several of these commands have in the same words -> those commands."""
    found: dict[Said, list[str]] = defaultdict(list)
    for context in contexts:
        for option in context.command.params:
            if (said := _said(option, context)) is not None:
                found[said].append(str(context.info_name))
    return {said: names for said, names in found.items() if len(names) > 1}


def _said(option: click.Parameter, context: click.Context) -> Said | None:
    said = option.get_help_record(context) if isinstance(option, click.Option) else None
    return said and (said[0], said[1].replace("[default: ", "["))


def _without(context: click.Context, shared: set[Said]) -> click.Context:
    """The command without these options, and without `--help`, which all have."""
    command = context.command
    if isinstance(command, click.Group):
        return context
    left = copy.copy(command)
    left.params = [each for each in command.params if _said(each, context) not in shared]
    left.add_help_option = False
    return click.Context(left, info_name=context.info_name, parent=context.parent)


def _listed(shared: dict[Said, list[str]], depth: int) -> Iterator[str]:
    formatter = click.HelpFormatter()
    for names in dict.fromkeys(map(tuple, shared.values())):
        with formatter.section(", ".join(names)):
            formatter.write_dl([said for said, of in shared.items() if tuple(of) == names])
    yield f"{'#' * depth} Options of several commands\n\n{textwrap.indent(formatter.getvalue().strip(), '    ')}\n"


if __name__ == "__main__":
    from gateway.cli.main import main

    sys.stdout.write(page(main))
