"""Where the log of a task is: which pod of which cluster, or the last lines that were kept."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Case, F, IntegerField, QuerySet, Value, When

from queues.models import KeptLog, Task
from queues.namespaces import namespace_of
from queues.queries.jobs import visible_job
from queues.queries.rows.history import KeptLines, LogChoice
from queues.states import TASK_HOLDING, TaskState
from tenants.errors import NotFound
from tenants.permissions import Actor

MOST_CHOICES = 200
LAST_LINES = 20
NO_LOG = "log_not_there"
COLUMNS = {"task": "index", "attempt": "wave__attempt", "group": "group", "wave": "wave__number"}
# Which task people most likely want: what failed, then what runs, then the rest.
FIRST = {TaskState.FAILED: 0, TaskState.RUNNING: 1, TaskState.LEAVING: 2, TaskState.STOPPED: 3, TaskState.SUCCEEDED: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """The pod that a log is read from, and what was kept of it; ``ended``: it writes no more."""

    cluster: str
    namespace: str
    pod: str
    task: int
    attempt: int
    container: str
    ended: bool
    why_no_pod: str
    kept: KeptLines | None


def log_source(by: Actor, uid: UUID, **wanted: int | None) -> LogSource:
    """Return where a visible job's log is: of the newest attempt and its first failed task unless ``wanted`` says.

    ``wanted`` may name task, attempt, group and wave.
    """
    job = visible_job(by, uid)
    said = {name: number for name, number in wanted.items() if number is not None}
    found = Task.objects.filter(wave__job=job, **{COLUMNS[name]: number for name, number in said.items()})
    row = _ordered(_newest_tries(found)).select_related("wave__cluster").first()
    if row is None:
        which = ", ".join(f"{name} {number}" for name, number in said.items())
        text = f"This job has no {which}." if which else "Nothing of this job has started yet, so there is no log."
        raise NotFound(text, code=NO_LOG)
    return LogSource(
        cluster=row.wave.cluster.name,
        namespace=namespace_of(job.team.name),
        pod=row.pod if row.bound or row.state != TaskState.PENDING else "",
        task=row.index,
        attempt=row.wave.attempt,
        container=row.container,
        ended=row.state not in TASK_HOLDING,
        why_no_pod=row.message or row.reason,
        kept=_kept(KeptLog.objects.filter(task=row).select_related("task").first()),
    )


def log_source_or_none(by: Actor, uid: UUID, **wanted: int | None) -> LogSource | None:
    """Return where a visible job's log is; None where there is no such log."""
    try:
        return log_source(by, uid, **wanted)
    except NotFound as error:
        if error.code != NO_LOG:
            raise
        return None


def log_choices(by: Actor, uid: UUID, *, attempt: int) -> tuple[LogChoice, ...]:
    """Return the tasks of an attempt whose logs one may choose from, those that failed first."""
    tasks = Task.objects.filter(wave__job=visible_job(by, uid), wave__attempt=attempt)
    rows = _ordered(_newest_tries(tasks)).select_related("node")[:MOST_CHOICES]
    return tuple(
        LogChoice(task=row.index, state=row.state, exit_code=row.exit_code, node=row.node.name) for row in rows
    )


def last_lines(by: Actor, uid: UUID) -> KeptLines | None:
    """Return the last lines that were kept of the task that failed first in the newest attempt with such lines."""
    kept = KeptLog.objects.filter(task__wave__job=visible_job(by, uid), kept_at__isnull=False).exclude(text="")
    return _kept(kept.order_by("-task__wave__attempt", "task_id").select_related("task").first(), lines=LAST_LINES)


def _newest_tries(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Return each task of each attempt once, as it was tried last."""
    newest = tasks.order_by("wave__attempt", "index", "-id").distinct("wave__attempt", "index")
    return Task.objects.filter(id__in=newest.values("id"))


def _ordered(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Sort the newest attempt first, and in it by ``FIRST``."""
    ranks = Case(
        *(When(state=state, then=Value(rank)) for state, rank in FIRST.items()),
        default=Value(len(FIRST)),
        output_field=IntegerField(),
    )
    return tasks.order_by(F("wave__attempt").desc(), ranks, "index", "id")


def _kept(row: KeptLog | None, *, lines: int | None = None) -> KeptLines | None:
    if row is None or row.kept_at is None:
        return None
    text = row.text.removesuffix("\n").split("\n") if row.text else []
    shown = text if lines is None else text[-lines:]
    return KeptLines(
        task=row.task.index,
        lines=tuple(_terminal(shown)),
        cut=row.cut or len(shown) < len(text),
        kept_at=row.kept_at,
        error=row.error,
    )


def _terminal(lines: Iterable[str]) -> Iterable[str]:
    """Return lines as a terminal would show them where a program drew over its own line."""
    return (line.rstrip("\r").rpartition("\r")[2] for line in lines)
