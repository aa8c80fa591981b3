"""One decision: a world and its waiting jobs in, admissions and reasons out."""

from dataclasses import dataclass

from queues.admission.reasons import Reason
from queues.admission.world import Heads, Placed, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """``tasks`` waiting tasks of a job start (of a gang: the whole job); ``flavors`` names each group's flavor.

    ``borrowed`` says that the job starts outside every guarantee of its path. Several admissions of one independent job in one
    decision are merged into one (one wave).
    """

    job: int
    job_class: int
    flavors: tuple[int, ...]
    placed: tuple[Placed, ...]
    tasks: int
    borrowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why the jobs of a class (``user`` None) or those of one user in it still wait, as one code with numbers."""

    job_class: int
    user: int | None
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one cycle decided, admissions in the order in which they were made."""

    admissions: tuple[Admission, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


def decide(world: World, heads: Heads) -> Outcome:
    """Decide who starts now, and say of every class with waiting jobs why the rest wait."""
    raise NotImplementedError
