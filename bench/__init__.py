"""Benchmarks: each row is measured beside its comparator, in one run, on one machine."""
