"""A program of fedfloor that ends with the process that started it: `python -m fedfloor.deploy.kept DESCRIPTOR ...`.

What follows the descriptor are the arguments of `fedfloor`. The other end of the descriptor stays with the process that
started this one; when that process ends, even by `kill -9`, this one ends too.
"""

__all__ = ["main"]

import runpy
import sys
from multiprocessing.connection import Connection

from fedfloor.workers.processes import end_with


def main() -> None:
    """Run the program of the remaining arguments."""
    descriptor = int(sys.argv.pop(1))
    end_with(Connection(descriptor))
    runpy.run_module("fedfloor", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
