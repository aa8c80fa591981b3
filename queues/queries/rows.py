"""What pages and the API show: frozen rows, made by the queries and read by templates and serializers."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from queues.states import JobState
from tenants.errors import FieldError, Notice

# Codes of the failures that count against a job's retries.
OWN_FAILURES = frozenset({"TASK_FAILED", "TIMED_OUT"})


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
class ElasticRow:
    """An elastic job between its bounds: how many tasks run and start now, and what stops it from growing.

    ``grows_from``: it gave surplus back and does not grow before. ``summary`` says all in a sentence or two.
    """

    least: int
    most: int
    running: int
    starting: int
    grows_from: datetime | None
    stalled: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job in a list. ``units`` counts all its tasks, ``tasks_waiting`` those that wait.

    Of an elastic job ``tasks`` and ``units`` are its minimum.
    """

    id: int
    uid: UUID
    name: str
    team: str
    queue: str
    owner: str
    mine: bool
    shape: str
    tasks: int
    tasks_waiting: int
    units: int
    flavors: tuple[str, ...]
    priority: str
    state: str
    state_since: datetime
    attempt: int
    submitted_at: datetime
    wait_from: datetime
    started_at: datetime | None
    ended_at: datetime | None
    external_id: str | None
    labels: dict[str, str]
    reason: ReasonRow | None
    elastic: ElasticRow | None = None

    @property
    def shape_text(self) -> str:
        """Return the shape in words: ``4 x 8 h100, all together``."""
        each = self.units // self.tasks if self.tasks and self.units % self.tasks == 0 else None
        kind = "/".join(self.flavors)
        if self.elastic is not None:
            size = kind if each is None else f"{each} {kind}"
            return f"{self.elastic.least} to {self.elastic.most} x {size}, flexible"
        count = f"{self.tasks} x {each} {kind}" if each is not None else f"{self.tasks} tasks, {self.units} {kind}"
        return count if self.tasks == 1 else f"{count}, {'all together' if self.shape == 'gang' else 'separate tasks'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A page of a list; ``older`` and ``newer`` are positions to go on from, ``count`` only where asked for."""

    rows: tuple[JobRow, ...]
    older: int | None = None
    newer: int | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A task group as asked for; CPU in thousandths of a core, memory in bytes, per task.

    ``most`` is how many tasks it may have at most where that is more than start together, else None.
    """

    name: str
    tasks: int
    most: int | None
    units: int
    flavors: tuple[str, ...]
    cpu_milli: int
    memory: int
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """All of one job but its history. ``may`` names the actions that the reader may do now."""

    row: JobRow
    groups: tuple[GroupRow, ...]
    spec: dict[str, Any]
    time_limit: timedelta | None
    ran_for: timedelta
    ends_by: datetime | None
    grace: timedelta
    retries: int
    failures: int
    evictions: int
    interruptions: int
    borrow: bool
    preemptible: bool
    borrowed: bool
    next_state: str
    backoff_until: datetime | None
    cloned_from: UUID | None
    position: Position | None
    tasks_by_state: dict[str, int]
    may: frozenset[str] = frozenset()
    estimate: Estimate | None = None

    @property
    def retries_used(self) -> int:
        """How often the job started again after its own failure: the failure that ended it was followed by none."""
        code = self.row.reason.code if self.row.reason else ""
        last = self.row.state == JobState.FAILED and code in OWN_FAILURES
        return max(0, min(self.retries, self.failures - last))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRow:
    """Until when a job starts (SEMANTICS 7): ``planned_at`` is T, ``before`` k, ``longest`` D, as things are now.

    ``latest`` = ``holds_from`` + (``before`` + 1) x ``longest``, None where nothing is certain: ``cause`` is then
    borrower, endless or many. ``moved`` says why the plan moved last: earlier or impossible.
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
class Manifests:
    """Kubernetes objects of a job; ``changed`` points to what Tidegate sets or takes out of one that people wrote."""

    objects: tuple[dict[str, Any], ...]
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """Something that happened to a job."""

    id: int
    at: datetime
    type: str
    actor: str
    summary: str
    details: dict[str, Any]
    job: UUID
    job_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """An admitted task on its node; ``meaning`` says in words how it ended, ``log_kept`` whether its last lines are."""

    index: int
    group: int
    node: str
    units: int
    state: str
    pod: str
    started_at: datetime | None
    saved_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    container: str
    reason: str
    message: str
    meaning: str
    log_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRow:
    """The tasks that one decision admitted; ``surplus`` ones are beside the minimum of an elastic job."""

    uid: UUID
    number: int
    cycle: int
    state: str
    flavors: tuple[str, ...]
    units: int
    borrowed: bool
    surplus: bool
    admitted_at: datetime
    launched_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str
    error: str
    tasks: tuple[TaskRow, ...]
    tasks_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """All waves since the job was last queued."""

    number: int
    waves: tuple[WaveRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """A waiting job in the queue order; ``job`` is None where the reader may not see it."""

    rank: int | None
    units: int
    units_ahead: int
    starts_next: bool
    job: JobRow | None
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """One order across teams for a flavor; ``permanent`` holds those that can never run and take no rank."""

    flavor: str
    free: int
    rows: tuple[OrderRow, ...]
    permanent: tuple[OrderRow, ...]
    waiting_jobs: int
    waiting_units: int
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue and its policy."""

    id: int
    team: str
    name: str
    order: str
    hold_after: timedelta
    default_time_limit: timedelta | None
    max_time_limit: timedelta | None
    max_grace: timedelta
    start_limit: timedelta
    start_retries: int
    per_user_limit: int | None
    max_priority: int | None
    preempt_within_team: str
    min_runtime: timedelta
    limit_needed_to_borrow: bool
    paused_at: datetime | None
    version: int
    waiting_jobs: int
    running_jobs: int
    may_edit: bool
    score: Score | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRow:
    """A priority class."""

    name: str
    value: int
    preemptible: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A task on a node; where the reader may not see the job, only its units are told and ``team`` is empty."""

    units: int
    state: str
    team: str = ""
    owner: str = ""
    job: UUID | None = None
    job_name: str = ""
    task: int | None = None
    mine: bool = False
    borrowed: bool = False
    started_at: datetime | None = None
    ends_by: datetime | None = None
    leaving_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Units of a node kept for a waiting job: reserved, while who has to go leaves, or held by its planned start.

    Where the reader may not see the job, ``team`` is empty.
    """

    units: int
    kind: str
    team: str = ""
    job: UUID | None = None
    job_name: str = ""
    starts_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsidePod:
    """A pod on a node that is not ours; ``leaving_since`` is when it was asked to go."""

    namespace: str
    name: str
    units: int
    leaving: bool
    leaving_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A machine: ``units`` = used + outside + free, free being 0 where it is not usable, and ``why`` says why."""

    id: int
    name: str
    cluster: str
    flavor: str | None
    place: tuple[str, ...]
    units: int
    used: int
    outside: int
    free: int
    usable: bool
    state: str
    why: str
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """All of one machine; CPU in thousandths of a core, memory in bytes. ``drift`` says how it differs.

    ``summary`` says in one sentence whether all of it can be used, and why not. ``others`` are named to administrators
    and auditors only, the largest first. ``devices`` are those that DRA announces, by driver.
    """

    row: NodeRow
    summary: str
    kept: tuple[Kept, ...]
    others: tuple[OutsidePod, ...]
    others_leaving: int
    devices: dict[str, int]
    conditions: tuple[str, ...]
    repelling: tuple[str, ...]
    not_ready_since: datetime | None
    cordoned_since: datetime | None
    counted: dict[str, int]
    drift: tuple[str, ...]
    cpu_milli: int
    cpu_used: int
    memory: int
    memory_used: int
    outside_cpu_milli: int
    outside_memory: int
    pods: int
    outside_pods: int
    labels: dict[str, str]
    taints: tuple[str, ...]
    other_taints: tuple[str, ...]
    first_seen_at: datetime
    changed_at: datetime
    gone_at: datetime | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """How fresh the picture of one cluster is."""

    name: str
    kubernetes_version: str
    listed_at: datetime | None
    heard_at: datetime | None
    unreachable_since: datetime | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetail:
    """One cluster with what it has; ``state`` is ready, unreachable (just now), away (for a while) or retired.

    ``error`` says why it does not answer, to those who may see decisions.
    """

    name: str
    state: str
    error: str
    kubernetes_version: str
    listed_at: datetime | None
    unreachable_since: datetime | None
    nodes: int
    usable_nodes: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """A machine that differs from what is expected."""

    cluster: str
    node: str
    kind: str
    text: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A GPU type that is missing: nodes with ``label`` = ``value``, counted as ``resource``."""

    name: str
    title: str
    resource: str
    label: str
    value: str
    nodes: int

    @property
    def hidden(self) -> tuple[tuple[str, str], ...]:
        """Return the fields that a form sends along."""
        return tuple((key, getattr(self, key)) for key in ("title", "resource", "label", "value"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How old the last decision and the cluster's picture are."""

    last_cycle: int | None
    last_cycle_at: datetime | None
    clusters: tuple[ClusterRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Something that a person should look at."""

    kind: str
    text: str
    since: datetime | None
    job: UUID | None = None
    node: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first page: numbers, bars, what needs attention, and the last changes."""

    flavors: tuple[FlavorNumbers, ...]
    bars: tuple[TeamBar, ...]
    loans: tuple[TeamLoans, ...]
    attention: tuple[Attention, ...]
    changes: tuple[EventRow, ...]
    freshness: Freshness
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """One cycle; ``milliseconds`` is the whole of ``durations``."""

    cycle: int
    at: datetime
    digest: str
    classes: int
    admissions: int
    tasks: int
    units: int
    milliseconds: float
    durations: dict[str, float]
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """A job by name; ``job`` is None where the reader may not see it, and name and team are then empty."""

    job: UUID | None = None
    name: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRow:
    """Tasks of the victim had to leave for a claim of the claimant, by which rule, and what that cost.

    ``grace`` is what they were given, ``grace_used`` how long the last of them took (None while some still leave).
    ``exact``: every set of victims was compared. ``surplus`` tasks go without its being an eviction of the job.
    """

    id: int
    at: datetime
    rule: str
    summary: str
    claimant: JobRef
    victim: JobRef
    attempt: int
    tasks: int
    units: int
    lost_unit_seconds: int
    grace: timedelta
    grace_used: timedelta | None
    exact: bool
    surplus: bool

    @property
    def lost_hours(self) -> float:
        """Return the unit-hours lost."""
        return self.lost_unit_seconds / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedRow:
    """A job that a cycle admitted; ``job`` None where the reader may not see it."""

    job: UUID | None
    name: str
    team: str
    wave: int
    units: int
    borrowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDetail:
    """One cycle with what it admitted."""

    row: DecisionRow
    admitted: tuple[AdmittedRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLines:
    """The last lines of a task that failed; ``error`` says why there are none."""

    task: int
    lines: tuple[str, ...]
    cut: bool
    kept_at: datetime
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """A task whose log may be chosen."""

    task: int
    state: str
    exit_code: int | None
    node: str
