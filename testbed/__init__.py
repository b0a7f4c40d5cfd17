"""A plant of real programs on a network with the rates of its scenario: `python -m testbed`; see docs/testbed.md."""
