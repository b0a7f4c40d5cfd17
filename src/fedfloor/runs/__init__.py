"""From the name of a scenario to a finished run."""
