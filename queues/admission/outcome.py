"""What one cycle decides: admissions, evictions, claims, holds, growth, and why the rest wait."""

from collections.abc import Sequence
from dataclasses import dataclass

from queues.admission.reasons import Code, Reason
from queues.admission.world import Claim, Hold, Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """``tasks`` tasks of a job start (of a gang: all of them); ``flavors`` names each group's flavor.

    ``borrowed`` says that the job starts outside every guarantee of its path. Several admissions of one independent job
    in one decision are merged into one (one wave).
    """

    job: int
    job_class: int
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]
    tasks: int
    borrowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why the jobs of a class (``user`` None) or those of one user in it still wait, as one code with numbers.

    ``job`` names the only one that it is about: a job with a claim, a hold or a back-off of its own.
    """

    job_class: int
    user: int | None
    reason: Reason
    job: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Tasks of an attempt leave now for claim ``claim`` of ``job``; ``surplus`` ones are no eviction of the job.

    ``rule`` says by which right, and ``exact`` whether every set of victims was compared.
    """

    attempt: int
    placed: tuple[Placed, ...]
    claim: int
    job: int
    surplus: bool = False
    rule: str = "guarantee"
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The claim ``claim`` of ``job``, with what was reserved for it, goes to the claim of the job ``by``."""

    claim: int
    job: int
    by: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Surplus tasks that an elastic job's attempt gets."""

    attempt: int
    placed: tuple[Placed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """What stops an elastic job's attempt from growing to its maximum."""

    attempt: int
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A named set of units that a job inside its guarantee keeps from borrowers (of an independent job: one task)."""

    job: int
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one cycle decided, admissions in the order in which they were made.

    ``verdicts`` are worked out when they are first read; one that says what the last decision said is the same object.
    ``claims`` and ``holds`` are all that stand after it and replace those of the world that it saw; ``keeps`` are those
    of this cycle. ``idle`` gives the free units that a job keeps idle without a planned start, for the caller to add up
    in ``Waiting.idle``.
    """

    admissions: tuple[Admission, ...] = ()
    verdicts: Sequence[Verdict] = ()
    evictions: tuple[Eviction, ...] = ()
    claims: tuple[Claim, ...] = ()
    holds: tuple[Hold, ...] = ()
    keeps: tuple[Keep, ...] = ()
    takeovers: tuple[Takeover, ...] = ()
    growth: tuple[Growth, ...] = ()
    stalled: tuple[Stalled, ...] = ()
    idle: tuple[tuple[int, int], ...] = ()
