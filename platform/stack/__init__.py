"""The services that Tidegate needs, from wheels: for `make run`, tests and benchmarks."""
