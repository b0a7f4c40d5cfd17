"""Who trains now and with what: `RoundState` -> `Decision`."""
