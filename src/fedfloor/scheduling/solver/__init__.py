"""Solvers of a round: the global optimum, and the algorithm of the paper."""
