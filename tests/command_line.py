"""Commands of fedfloor as texts have them, and how the command line understands them."""

import re
import shlex
from typing import Any

import click
import typer

from fedfloor.cli import program

_ENDS = ("&", "&&", "||", "|", ";", ">")


def parsed(words: list[str]) -> dict[str, Any]:
    """Parameters of a command, which is not run; a mistake in it is a click.UsageError."""
    if "--install-completion" in words:
        raise ValueError("parsing this option changes the files of the user's shell")
    command: click.Command = typer.main.get_command(program())
    context = command.make_context("fedfloor", list(words))
    while isinstance(command, click.Group):
        name, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None
        assert chosen is not None
        command, context = chosen, chosen.make_context(name, rest, parent=context)
    return context.params


def commands_in(text: str) -> list[list[str]]:
    """Words after `fedfloor` of every command in a shell text, without those that leave something out (`...`)."""
    commands = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        words = shlex.split(line, comments=True)
        while "fedfloor" in words:
            words = words[words.index("fedfloor") + 1 :]
            end = min((words.index(mark) for mark in _ENDS if mark in words), default=len(words))
            if "..." not in words[:end]:
                commands.append(words[:end])
    return commands
