"""What the paper proves, as functions with plain inputs and plain outputs."""
