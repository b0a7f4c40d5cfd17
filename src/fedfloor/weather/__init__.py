"""Conditions that no policy decides: radio gains, interference and energy, drawn or recorded."""
