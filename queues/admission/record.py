"""What has been decided so far in a cycle, step by step."""

from collections import Counter
from dataclasses import dataclass, field

from queues.admission.outcome import Eviction, Growth, Stalled, Takeover
from queues.admission.shapes import Option
from queues.admission.world import Claim, JobClass, Placed, Waiting


@dataclass(frozen=True, slots=True)
class Start:
    """One step: a job, or one task of an independent job, that starts."""

    job: int
    job_class: int
    option: Option
    placed: tuple[Placed, ...]
    borrowed: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """A job inside its guarantee that could neither start nor claim and keeps a named set of units.

    ``counts``: later jobs of its team take it as usage, since it keeps units or stands behind a hold of its own team.
    """

    job: Waiting
    job_class: JobClass
    option: Option
    placed: tuple[Placed, ...]
    waits_for_age: bool
    counts: bool


@dataclass(slots=True)
class Record:
    """The steps of a cycle, and the claims that stand though a node of theirs is ``away``: lost or cordoned.

    ``inner`` counts by top of the tree the steps outside of which all stayed as it was.
    """

    starts: list[Start] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    takeovers: list[Takeover] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    stalled: list[Stalled] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    backing_off: dict[int, JobClass] = field(default_factory=dict)
    tired: dict[int, tuple[JobClass, Option]] = field(default_factory=dict)
    away: list[Claim] = field(default_factory=list)
    claims: int = 0
    inner: Counter[int] = field(default_factory=Counter)
    all_inner: int = 0

    @property
    def version(self) -> int:
        """Return a number that changes with every step that may change what others can do."""
        return len(self.starts) + len(self.evictions) + len(self.kept) + self.claims

    def version_of(self, top: int) -> int:
        """Return a number that changes with every step that may change what is found below a top of the tree."""
        return self.version - self.all_inner + self.inner[top]

    def stayed_within(self, top: int, since: int) -> None:
        """Note that all steps since a version left what is outside of a top of the tree as it was."""
        self.inner[top] += self.version - since
        self.all_inner += self.version - since
