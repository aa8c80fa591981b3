"""Migrations of tenants."""
