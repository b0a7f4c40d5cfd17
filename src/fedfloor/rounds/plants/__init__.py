"""What rounds run on: plants behind one contract."""
