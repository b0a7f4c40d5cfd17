"""Data sets, the samples that each device holds, and the samples that form a batch."""
