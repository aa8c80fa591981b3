"""Who has how many GPUs, of whom, and what a change of a quota would do."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tenants.errors import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewJob:
    """A job that a change would touch; ``count`` are tasks that start, or units."""

    job: UUID | None
    name: str
    team: str
    owner: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewMove:
    """An expected start that a change would move."""

    job: PreviewJob
    before: datetime
    after: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPreview:
    """What edits of quotas would change at this moment.

    ``starts`` and ``starts_no_more`` count tasks that would (not) start now; ``reclaimed`` units that would be taken
    back, ``borrowed`` running units that would become borrowed; ``impossible`` are waiting jobs that could never start.
    Of starts that can be told ``sooner`` and ``later`` move by a minute or more; ``moves`` are those that move most.
    """

    as_of: datetime
    notices: tuple[Notice, ...]
    starts: tuple[PreviewJob, ...]
    starts_no_more: tuple[PreviewJob, ...]
    reclaimed: tuple[PreviewJob, ...]
    borrowed: tuple[PreviewJob, ...]
    impossible: int
    sooner: int
    later: int
    moves: tuple[PreviewMove, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorNumbers:
    """Units of a flavor: installed = in_use + free + not_usable + outside, where nothing is over-used."""

    flavor: str
    title: str
    installed: int
    in_use: int
    free: int
    not_usable: int
    outside: int
    waiting_units: int
    waiting_jobs: int
    guaranteed: int
    unassigned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamBar:
    """A team on a flavor. ``inside`` + ``borrowed`` = ``used``; ``lent`` of its guarantee is used by others.

    A limit of None is no limit.
    """

    team: str
    title: str
    parent: str | None
    depth: int
    department: bool
    flavor: str
    guaranteed: int
    borrow_limit: int | None
    lend_limit: int | None
    used: int
    inside: int
    borrowed: int
    lent: int
    waiting: int
    mine: bool
    starved: bool

    @property
    def text(self) -> str:
        """Return the numbers in words: ``48/40 · +8 borrowed · 12 waiting``."""
        parts = [f"{self.used}/{self.guaranteed}"]
        parts += [f"+{self.borrowed} borrowed"] if self.borrowed else []
        parts += [f"{self.lent} lent"] if self.lent else []
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        return " · ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanJob:
    """A job that runs on borrowed units, of a team that the reader sees."""

    job: UUID
    name: str
    owner: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanSide:
    """Who is on the other side of a loan: a ``team``, else ``kind`` is unassigned, over_lending or others (unseen).

    ``jobs`` are those that use the units, where the reader may see them.
    """

    kind: str
    team: str
    units: int
    jobs: tuple[LoanJob, ...] = ()

    @property
    def text(self) -> str:
        """Return whose units they are."""
        words = {"unassigned": "promised to nobody", "over_lending": "over lending", "others": "other teams"}
        return self.team or words[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamLoans:
    """What a team borrows and lends on a flavor at this moment; a department: across its border.

    ``jobs`` are the team's own that run on borrowed units.
    """

    team: str
    department: bool
    flavor: str
    borrowed: int
    lent: int
    lenders: tuple[LoanSide, ...]
    borrowers: tuple[LoanSide, ...]
    jobs: tuple[LoanJob, ...] = ()
