"""Aggregation rules, one file each: the file has the name of the rule, the first public name is its class."""
