"""Walks through the portal in a real browser against a real server."""
