"""The program `fedfloor`, also as `python -m fedfloor`."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109  # pathlib may lie there
    del sys.path[0]  # the working folder, where a file such as json.py would take the place of a library

from fedfloor.signals import ends_at_once


def main() -> None:
    """Run a command; signals end it in one line from here on."""
    with ends_at_once():
        from fedfloor.cli import main as run  # noqa: PLC0415  # it takes a while

        run()


if __name__ == "__main__":
    main()
