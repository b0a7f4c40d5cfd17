"""The help of every command: how it is asked for, and how it reads."""

from collections.abc import Iterator

import click
import pytest
import typer

from fedfloor.cli import program


def helps(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """A context with 80 columns for a command and for all commands below it."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=80, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            chosen = command.get_command(context, below)
            assert chosen is not None
            yield from helps(chosen, below, context)


CONTEXTS = list(helps(typer.main.get_command(program()), "fedfloor"))
each_command = pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path)


@each_command
def test_every_command_takes_h_for_help(context: click.Context) -> None:
    option = context.command.get_help_option(context)
    assert option is not None
    assert sorted(option.opts) == ["--help", "-h"]
    assert all("-h" not in entry.opts for entry in context.command.params if entry is not option)


@each_command
def test_no_line_of_a_help_is_cut_off(context: click.Context) -> None:
    usage, _, text = context.get_help().partition("\n\n")
    assert usage.startswith("Usage: ")  # ends in "..." where arguments may be repeated
    assert [line for line in text.splitlines() if line.endswith("...") or len(line) > 80] == []


@each_command
def test_every_command_has_a_summary_of_one_sentence(context: click.Context) -> None:
    summary = context.command.get_short_help_str(limit=61)
    assert summary.endswith(".")
    assert not summary.endswith("...")
