"""Arguments -> one call per command; everything heavy is imported when a command needs it."""

__all__ = ["COMMANDS", "main", "program"]

import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import typer

from fedfloor.characters import printable
from fedfloor.cli.completing import named_command
from fedfloor.cli.options import app
from fedfloor.errors import FailedRunError, FedfloorError, StoppedRunError
from fedfloor.signals import exit_code, sigterm_interrupts

if TYPE_CHECKING:
    import click

#: the commands in the order of the help; each is the module of its name in `commands`, and adds itself to the program
COMMANDS = (
    *("list", "init", "schema", "check", "profile", "simulate", "plan", "tradeoff"),
    *("run", "evaluate", "compare", "watch", "report", "data", "flower", "certs"),
    *("server", "gateway", "device", "local-plant"),
)

#: an option of other commands -> why a command does not have it
_UNLIKE_OTHERS = {
    ("fedfloor compare", "--resume"): "compare has no --resume: repeating the command resumes what is not finished",
}


_LONG = re.compile(r"(\S{77})\S{124,}")  #: words that click would quote in full


def program(name: str = "") -> typer.Typer:
    """The program with all its commands; with only the named one, which loads faster, if there is such a command."""
    for command in (name,) if name in COMMANDS else COMMANDS:
        import_module(f"{__name__}.commands.{command.replace('-', '_')}")
    return app


def main() -> None:
    """Run a command; wrong input ends in one line on standard error and exit code 2."""
    try:
        _run()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left early, as `| head` does
        sys.exit(0)


def _run() -> None:
    import click

    with sigterm_interrupts() as terminated:
        try:
            _run_command()
        except click.exceptions.NoArgsIsHelpError as error:
            print(error.format_message(), flush=True)
            sys.exit(0)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "fedfloor"
            message = _LONG.sub(r"\1...", _problem_of(error, where).splitlines()[0].rstrip("."))
            _fail(f"{message}{'' if message.endswith('?') else '.'} See `{where} --help`.", 2)
        except FedfloorError as error:
            _fail(str(error), 2)
        except FailedRunError as error:
            _fail(str(error), 1)
        except StoppedRunError as error:
            _interrupted(f": {error}", terminated=terminated())
        except (KeyboardInterrupt, click.Abort):
            _interrupted("", terminated=terminated())
        except BrokenPipeError:
            raise
        except OSError as error:
            advice = "Check that path" if error.filename else "Check the free disk space and memory, then try again"
            _fail(f"{error.filename or 'operating system'}: {error.strerror or error}. {advice}", 1)
        except MemoryError:
            _fail("out of memory. Make the scenario smaller, or use fewer --workers", 1)
        except Exception as error:
            if os.environ.get("FEDFLOOR_TRACEBACK"):
                raise
            hint = "This is a bug in fedfloor; set FEDFLOOR_TRACEBACK=1 to see where"
            _fail(f"{type(error).__name__}: {error}. {hint}", 1)


def _problem_of(error: "click.UsageError", where: str) -> str:
    """What click says, with a full stop before its guess at an unknown option; or why a command has no such option."""
    import click

    if not isinstance(error, click.NoSuchOption):
        return error.format_message().replace("not a valid integer range", "not a whole number")
    guess = click.NoSuchOption(error.option_name, f"{error.message}.", error.possibilities)
    return _UNLIKE_OTHERS.get((where, error.option_name), guess.format_message())


def _run_command() -> None:
    command = typer.main.get_command(program(named_command()))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows another
    code = command.main(prog_name="fedfloor", standalone_mode=False)
    if code == 130:  # typer turns Ctrl-C into this
        raise KeyboardInterrupt
    if sys.stdout is not None:  # it may have been closed before we began
        sys.stdout.flush()  # a reader who left early shows here
    sys.exit(code)


def _interrupted(rest: str, *, terminated: bool) -> None:
    """End with the same word for Ctrl-C and SIGTERM; only the exit codes differ."""
    _end(f"interrupted{rest}", exit_code(terminated=terminated))


def _fail(message: str, code: int) -> None:
    _end(f"error: {message}", code)


def _end(message: str, code: int) -> None:
    print(printable(" ".join(message.split())), file=sys.stderr)
    sys.exit(code)
