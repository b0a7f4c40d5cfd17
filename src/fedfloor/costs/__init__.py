"""What it costs: Table II and Eq. (1)-(10) as pure functions on arrays."""
