"""The one loop, what it runs on, what it records and who listens."""
