"""Fixtures that every test may use."""
