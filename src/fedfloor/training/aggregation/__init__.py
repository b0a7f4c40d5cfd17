"""How the base station makes the next global model from those of the floors: the rules, and what they share."""
