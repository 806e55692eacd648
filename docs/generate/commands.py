"""docs/commands.md, made of the commands themselves: `python -m docs.generate.commands`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

_HEAD = """# Commands

Made of `gateway --help` by `make docs`. Status 2 means everywhere that the command line itself is wrong.
"""


def page(main: click.Command) -> str:
    """The whole page, in Markdown."""
    return "\n".join([_HEAD, *_of(click.Context(main, info_name="gateway", **main.context_settings))])


def _of(context: click.Context) -> Iterator[str]:
    """A command, and those below it."""
    command = context.command
    path = context.command_path
    depth = len(path.split())
    if not isinstance(command, click.Group):
        yield f"{'#' * depth} {path}\n"
        yield f"```text\n{command.get_help(context).strip()}\n```\n"
        return
    if depth > 1:
        yield f"{'#' * depth} {path}\n\n{(command.help or '').strip()}\n"
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None  # it is on the list
        if not below.hidden:
            yield from _of(click.Context(below, info_name=name, parent=context))


if __name__ == "__main__":
    from gateway.cli.main import main

    sys.stdout.write(page(main))
