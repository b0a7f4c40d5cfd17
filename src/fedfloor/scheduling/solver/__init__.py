"""Solvers for one round: the global optimum, and the paper's algorithm."""
