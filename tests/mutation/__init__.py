"""Mutation runs on the rules: ``python -m tests.mutation quota`` (docs/mutation.md)."""
