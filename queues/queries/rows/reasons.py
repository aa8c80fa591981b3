"""Why a job stands where it stands, and what would change it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from tenants.errors import FieldError, Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """What stands in a job's way; ``job`` is None where the reader may not see it, and ``text`` then names no names."""

    text: str
    units: int = 0
    job: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What would help: a sentence, and where to do it if there is a place."""

    text: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRow:
    """Why a job stands where it stands: one code, one sentence with numbers, since when."""

    code: str
    permanent: bool
    summary: str
    since: datetime
    details: dict[str, int | str] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The place in the queue order of a flavor; ``about`` behind the first 200, where it is a lower bound."""

    rank: int
    units_ahead: int
    about: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """When a waiting job is expected to start: a range, or the ``cause`` why it is unknown; ``summary`` says which."""

    p50: datetime | None
    p90: datetime | None
    basis: str
    cause: str
    summary: str
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How forecasts held: of so many so many jobs started until p50 and until p90; ``width`` is the mean range."""

    forecasts: int
    until_p50: int
    until_p90: int
    width: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRow:
    """Until when a job starts (SEMANTICS 7): ``planned_at`` is T, ``before`` k, ``longest`` D, as things are now.

    ``latest`` = ``holds_from`` + (``before`` + 1) x ``longest``, None where nothing is certain: ``cause`` is then
    borrower, endless or many. ``moved`` says why the plan moved last: earlier, impossible or guaranteed.
    """

    standing: str
    planned_at: datetime | None
    moved: str
    holds_from: datetime
    before: int
    longest: timedelta
    latest: datetime | None
    cause: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job waits, in numbers of one flavor: what it needs, its team has and may have, and who is before it."""

    reason: ReasonRow | None
    flavor: str
    needs: int
    team_guaranteed: int
    team_used: int
    team_left: int
    may_borrow: int | None
    free_now: int
    largest_free_block: int
    rule: str
    bound: BoundRow | None
    position: Position | None
    ahead: tuple[Blocker, ...]
    helps: tuple[Action, ...]
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would become of a job if it were submitted now.

    ``fits``: it can ever start. ``needs`` are the units of ``flavor`` that must be free at once, of which ``own`` are
    inside its guarantee and ``borrowed`` are not. ``reason`` says why it would wait. Of an elastic job ``units`` are
    those of its minimum, ``most_units`` those to which it may grow. ``written`` tells in words how a manifest was read.
    """

    valid: bool
    as_of: datetime
    written: str = ""
    errors: tuple[FieldError, ...] = ()
    fits: bool = False
    starts_now: bool = False
    units: int = 0
    most_units: int = 0
    flavor: str = ""
    needs: int = 0
    own: int = 0
    borrowed: int = 0
    reason: ReasonRow | None = None
    position: Position | None = None
    estimate: Estimate | None = None
    warnings: tuple[Notice, ...] = ()
