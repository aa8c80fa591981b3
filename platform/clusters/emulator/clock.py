"""Times as Kubernetes writes them."""

import re
from datetime import UTC, datetime, timedelta

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# Nothing here waits for longer than 30 years; larger numbers would leave the calendar.
_AGES = 30 * 365 * 24 * 3600.0


def now() -> datetime:
    """Return the time; only the server hands it on."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """Write a time to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> datetime:
    """Read a time that Kubernetes wrote."""
    return datetime.fromisoformat(text)


def duration(text: str, default: float) -> float:
    """Return the seconds of a Go duration such as ``1m30s`` or ``1500ms``; what is none counts as ``default``."""
    if text.strip() == "0":
        return 0.0
    if not text or _DURATION.sub("", text):
        return default
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def after(moment: datetime, seconds: float) -> datetime:
    """Return the time ``seconds`` later."""
    return moment + timedelta(seconds=min(seconds, _AGES))
