"""Processes that do the work: on this machine, or in a Ray cluster."""
