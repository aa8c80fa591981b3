"""Which addresses are for programs, and how they are read."""

MACHINES = {"/api", "/healthz", "/readyz", "/metrics"}


def is_for_programs(path: str) -> bool:
    """Return whether a program asks there, which wants problem+json."""
    return path.startswith("/api/") or path in MACHINES


def clean(path: str) -> str:
    """Drop the slash at the end of an API's address."""
    return path.rstrip("/") if is_for_programs(path) else path
