"""`python -m fedfloor`."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109  # pathlib may lie there
    del sys.path[0]  # the working folder, where a file such as json.py would take the place of a library

from fedfloor.cli import main

main()
