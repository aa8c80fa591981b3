"""How many examples a property tries: the same few in every quick run, many others where somebody asks for them."""

import os

from hypothesis import settings

TIMES = int(os.environ.get("TIDEGATE_EXAMPLES", "1"))
"""``TIDEGATE_EXAMPLES=50`` tries fifty times as many, and not the same ones in every run."""


def examples(count: int) -> int:
    """Return the number of examples of a property that tries ``count`` in a quick run."""
    return count * TIMES


def use_profile() -> None:
    """Let quick runs be the same on every machine, whatever its speed."""
    settings.register_profile("quick", deadline=None, derandomize=True, database=None)
    settings.register_profile("long", deadline=None, print_blob=True)
    settings.load_profile("quick" if TIMES == 1 else "long")
