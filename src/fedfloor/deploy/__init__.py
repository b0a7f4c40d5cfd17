"""Rounds on real machines: base station, gateways and devices as processes that talk over the network."""
