"""Which floors train in a round and with which resources: `RoundState` -> `Decision`."""
