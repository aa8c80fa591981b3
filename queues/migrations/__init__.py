"""Migrations of queues."""
