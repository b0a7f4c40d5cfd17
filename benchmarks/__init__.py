"""Measurements that documents and `make bench` rest on."""
