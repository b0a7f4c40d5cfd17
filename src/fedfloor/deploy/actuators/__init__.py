"""What carries out the frequency and the power that were decided for a machine: one actuator a file."""
