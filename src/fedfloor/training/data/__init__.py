"""Data sets, who holds what, and which samples make a batch."""
