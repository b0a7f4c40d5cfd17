"""What several figures measure alike: pure functions of runs as arrays. Unknown is nan, endless is inf."""
