"""CPU, memory and durations as people write them, exactly: whole thousandths, bytes and seconds."""

import re
from datetime import timedelta

from clusters import quantities

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)
_UNITS = (86_400, 3_600, 60, 1)
_LETTERS = "dhms"
MOST_SECONDS = 10**9
MOST_LETTERS = 40


def cpu_milli(given: object) -> int:
    """Return thousandths of a core of ``4``, ``0.5``, ``"4"`` or ``"500m"``; raise ValueError for all else."""
    return quantities.milli(_quantity(given))


def memory(given: object) -> int:
    """Return bytes of ``"16Gi"`` or a whole number of bytes; raise ValueError where it is neither."""
    return quantities.whole(_quantity(given))


def duration(given: object) -> timedelta:
    """Return ``"12h"``, ``"1d6h"``, ``"30s"`` or whole seconds as a duration; raise ValueError for all else."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < MOST_SECONDS:
        return timedelta(seconds=given)
    if isinstance(given, str) and _SECONDS.fullmatch(given.strip()):
        return timedelta(seconds=int(given))
    found = _DURATION.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None or not any(found.groups()):
        raise ValueError("not a duration")
    return timedelta(seconds=sum(int(part or 0) * unit for part, unit in zip(found.groups(), _UNITS, strict=True)))


def duration_text(length: timedelta) -> str:
    """Return a duration as it is written, like ``1d6h``; parts of a second are dropped."""
    left = int(length.total_seconds())
    parts = []
    for unit, letter in zip(_UNITS, _LETTERS, strict=True):
        count, left = divmod(left, unit)
        parts += [f"{count}{letter}"] if count else []
    return "".join(parts) or "0s"


def cpu_text(milli: int) -> str:
    """Return CPU as it is written: ``4`` or ``500m``."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def memory_text(size: int) -> str:
    """Return memory as it is written, in the largest binary unit that divides it."""
    for power, letter in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size and size % 2**power == 0:
            return f"{size >> power}{letter}"
    return str(size)


def _quantity(given: object) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError("not a quantity")  # noqa: TRY004  callers catch one kind of error
    text = str(given).strip()
    if text.startswith(("-", "+")) or len(text) > MOST_LETTERS:
        raise ValueError("not a quantity")
    return text
