"""Why a job waits: one code, whether it can ever pass, and the numbers behind it (SEMANTICS 10)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Every reason that a waiting job can have from a decision; of those that apply the first is given."""

    EXCEEDS_MAX = "EXCEEDS_MAX"
    EXCEEDS_NODE = "EXCEEDS_NODE"
    NO_MATCHING_NODE = "NO_MATCHING_NODE"
    HELD = "HELD"
    QUEUE_PAUSED = "QUEUE_PAUSED"
    BACKING_OFF = "BACKING_OFF"
    USER_LIMIT = "USER_LIMIT"
    TIME_LIMIT_NEEDED = "TIME_LIMIT_NEEDED"
    TEAM_LIMIT = "TEAM_LIMIT"
    BORROW_LIMIT = "BORROW_LIMIT"
    LEND_LIMIT = "LEND_LIMIT"
    WAITS_VICTIMS = "WAITS_VICTIMS"
    WAITS_MIN_RUNTIME = "WAITS_MIN_RUNTIME"
    HOLDS = "HOLDS"
    CAPACITY_REDUCED = "CAPACITY_REDUCED"
    WAITS_TERMINATING = "WAITS_TERMINATING"
    NO_FREE_CAPACITY = "NO_FREE_CAPACITY"
    NO_DOMAIN_FITS = "NO_DOMAIN_FITS"
    FRAGMENTED = "FRAGMENTED"
    WOULD_DELAY = "WOULD_DELAY"
    BEHIND = "BEHIND"


ORDER = {code: place for place, code in enumerate(Code)}
Numbers = dict[str, int | str]


def would_borrow(code: Code | str, numbers: Mapping[str, int | str]) -> bool:
    """Whether a class that waits for this reason may start, and its numbers say that it is not inside its guarantee."""
    needs, left = numbers.get("needs"), numbers.get("team_left")
    return code not in STANDS_FIRST and isinstance(needs, int) and isinstance(left, int) and needs > left


def pauses(*, evictions: int, most: int, hold_after: int, waited: int) -> bool:
    """Whether a job that was evicted so often has to wait longer, hold_after x 2^n, before it borrows again."""
    return evictions >= most and waited < hold_after * (1 << (evictions - most))


PERMANENT = frozenset({Code.EXCEEDS_MAX, Code.EXCEEDS_NODE, Code.NO_MATCHING_NODE})


STANDS_FIRST = PERMANENT | {Code.HELD, Code.QUEUE_PAUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A code with its numbers; ``numbers`` is sorted by key so that equal reasons are equal values."""

    code: Code
    numbers: tuple[tuple[str, int | str], ...] = ()

    @property
    def permanent(self) -> bool:
        """Whether no change but one of the job, the quota or the cluster's kind of nodes can help."""
        return self.code in PERMANENT


def reason(code: Code, numbers: Numbers) -> Reason:
    """Return a reason with its numbers sorted by name."""
    return Reason(code=code, numbers=tuple(sorted(numbers.items())))
