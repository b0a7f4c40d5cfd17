"""A module of a user that fails when it is imported."""

RATIO = 1 / 0
