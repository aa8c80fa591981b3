"""Benchmarks: how fast and how good the rules are, on published workloads where there are any."""
