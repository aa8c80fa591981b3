"""REST endpoints of tenants."""
