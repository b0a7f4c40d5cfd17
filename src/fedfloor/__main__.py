"""`python -m fedfloor`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder, where a file such as json.py would take the place of a library

from fedfloor.cli import main

main()
