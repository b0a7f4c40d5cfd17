"""How mistakes are shown in Flower's log."""

__all__ = ["APP_CONFIG", "ARGUMENTS", "logged_errors"]

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import ERROR

from flwr.supercore import log

from fedfloor.errors import FailedRunError, FedfloorError

#: options of our command line as arguments of `FedFloor`: pattern -> what is written in its place
ARGUMENTS: Mapping[str, str] = {
    r"^--set (.*?): ": r"overrides: \1: ",
    r"Repeat --set for each of them": "Write each of them as an entry of its own in overrides",
    r"--set (\S+?)(?=[.,:]?(\s|$))": r'overrides=["\1"]',
    r"--out (\S+) --resume": r'out="\1" and resume=True',
    r"--out": "out=FOLDER",
    r"--resume(, or resume=True in Python)?": "resume=True",
}
#: the same as keys of the app whose nodes are floors
APP_CONFIG: Mapping[str, str] = {
    r"^--set (.*?): ": r"app config: set: \1: ",
    r"Repeat --set for each of them": "Write a semicolon between them",
    r"--set (\S+?)(?=[.,:]?(\s|$))": r'set = "\1"',
    r"--out (\S+) --resume": r'out = "\1" and resume = true',
    r"--out": "the key out",
    r"--resume(, or resume=True in Python)?": "resume = true",
}


@contextmanager
def logged_errors(words: Mapping[str, str] = ARGUMENTS) -> Iterator[None]:
    """Log what is wrong in one line before it is raised, because Flower shows only tracebacks.

    Messages are those of the command line, whose options are replaced by the `words` that the reader has.
    """
    try:
        yield
    except (FedfloorError, FailedRunError) as error:
        text = str(error)
        for pattern, word in words.items():
            text = re.sub(pattern, word, text)
        error.args = (text,)
        log(ERROR, "fedfloor: error: %s", text)
        raise
