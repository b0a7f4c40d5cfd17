"""A run while it goes: its log is read as it grows, and a page on this machine shows it."""
