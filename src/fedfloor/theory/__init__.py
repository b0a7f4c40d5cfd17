"""The paper's theorems and participation rates, as functions with plain inputs and plain outputs."""
