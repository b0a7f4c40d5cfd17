"""`python -m fedfloor`."""

from fedfloor.cli import main

main()
