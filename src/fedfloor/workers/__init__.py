"""Where work is done: processes of this machine, or a Ray cluster."""
