"""A Flower app whose rounds are decided by fedfloor."""
