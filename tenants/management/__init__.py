"""Management commands of tenants."""
