"""Why a job stands where it stands: its own state first, then its user's verdict, then its class's (SEMANTICS 10)."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.db.models import JSONField
from django.db.models.expressions import RawSQL

from queues import wording
from queues.admission.reasons import Code, pauses, would_borrow
from queues.admission.world import Policy
from queues.models import Job, Verdict, Wave
from queues.progress import Trouble
from queues.queries.rows.reasons import Action, Blocker, ReasonRow
from queues.states import ENDED, HOLDING, JobState
from queues.waiting import span
from tenants.look import once
from tenants.models import Installation
from tenants.permissions import Actor, Permission, teams_seen

OTHERS = "another team"
ON_CLUSTER = frozenset({JobState.ADMITTED, JobState.RUNNING, JobState.EVICTING})
# What a decision says of a job that would start if more units were free.
LACKS_UNITS = frozenset({Code.NO_FREE_CAPACITY, Code.WAITS_TERMINATING, Code.BEHIND})
OUR_IDS = frozenset({"job", "claim", "endless_jobs"})

# What is left of its GPU type belongs to a verdict's numbers, and is kept once for all of them; what pods of others use
# there, the same for all, is added up once a statement.
_LEFT = RawSQL(
    """(
    SELECT jsonb_build_object(
        'free', spare.free, 'largest_block', spare.largest_block,
        'team_left', spare.teams -> queue.team_id::text -> 0, 'may_borrow', spare.teams -> queue.team_id::text -> 1,
        'outside', (
            SELECT jsonb_object_agg(used.flavor, used.units) FROM (
                SELECT flavor.name AS flavor, SUM(node.outside_units) AS units
                FROM queues_node node JOIN tenants_flavor flavor ON flavor.id = node.flavor_id
                WHERE node.outside_units > 0 AND node.gone_at IS NULL GROUP BY flavor.name
            ) used
        ) -> spare.flavor
    )
    FROM queues_spare spare, queues_jobclass class JOIN queues_queue queue ON queue.id = class.queue_id
    WHERE queues_verdict.spare AND class.id = queues_verdict.job_class_id
        AND spare.flavor = queues_verdict.numbers ->> 'flavor'
    )""",
    [],
    output_field=JSONField(),
)

Verdicts = dict[tuple[int, int | None, int | None], Verdict]
"""By class, user and job; None for all."""


class Reasons:
    """The reasons of some jobs, read in one statement, with one more each where some name teams or jobs."""

    def __init__(self, jobs: Iterable[Job], by: Actor, now: datetime) -> None:
        """Read the verdicts of the jobs that wait, and which others are on a cluster that does not answer."""
        jobs = list(jobs)
        classes = {job.job_class_id for job in jobs if job.waiting_tasks}
        self._verdicts: Verdicts = {}
        if classes:
            rows = _verdicts(tuple(sorted(classes)))
            self._verdicts = {(row.job_class_id, row.user_id, row.job_id): row for row in rows}
        self._away = _on_silent_clusters([job.id for job in jobs if job.state in ON_CLUSTER])
        self._by = by
        self._now = now
        self._teams: frozenset[str] | None = None
        self._named: dict[int, Blocker] | None = None
        self._most: int | None = None

    def of(self, job: Job) -> ReasonRow | None:
        """Return the one current reason of a job; None where nothing needs one."""
        state = JobState(job.state)
        if self._never(job, state):
            return self._waiting(job)
        if state is JobState.HELD:
            return _plain(Code.HELD, job.state_since)
        if job.id in self._away:
            return _silent(*self._away[job.id])
        if job.backoff_until is not None:
            return self._backing_off(job, job.backoff_until)
        if job.waiting_tasks and state not in ENDED and state is not JobState.EVICTING:
            return self._waiting(job)
        if job.reason_code:
            text = job.reason_text or wording.sentence(job.reason_code, {})
            return ReasonRow(code=job.reason_code, permanent=False, summary=text, since=job.state_since)
        return None

    def _never(self, job: Job, state: JobState) -> bool:
        """Whether a job that is held or backs off could never start anyway."""
        if state is not JobState.HELD and (state is not JobState.QUEUED or job.backoff_until is None):
            return False
        of_class = self._verdicts.get((job.job_class_id, None, None))
        return of_class is not None and of_class.permanent

    def _backing_off(self, job: Job, until: datetime) -> ReasonRow:
        cause = job.reason_text or wording.sentence(job.reason_code, {}) if job.reason_code else ""
        return ReasonRow(
            code=Code.BACKING_OFF,
            permanent=False,
            summary=f"Pauses until {until:%H:%M:%S} UTC. {cause}".strip(),
            since=job.not_waiting_since or job.state_since,
            details={"until": until.isoformat(), "cause": job.reason_code, "failures": job.start_failures},
        )

    def _waiting(self, job: Job) -> ReasonRow:
        verdict = self._verdict(job)
        if verdict is None:
            return _plain(wording.NOT_DECIDED, job.state_since)
        if verdict.job_id is None and self._pauses(job):
            return _plain(Code.BACKING_OFF, job.state_since)
        numbers = self._readable(verdict.numbers)
        return ReasonRow(
            code=verdict.code,
            permanent=verdict.permanent,
            summary=wording.sentence(verdict.code, numbers),
            # A class may have its reason for longer than this job waits.
            since=max(verdict.since, job.submitted_at),
            details=numbers,
            blockers=tuple(self._blockers(verdict.numbers, numbers)),
            actions=tuple(Action(text=text) for text in wording.helps(verdict.code, numbers)),
        )

    def free_units_help(self, job: Job) -> bool:
        """Tell whether nothing but free units keeps a waiting job, as far as the last decision knew of it."""
        verdict = self._verdict(job)
        return job.backoff_until is None and (verdict is None or verdict.code in LACKS_UNITS) and not self._pauses(job)

    def _verdict(self, job: Job) -> Verdict | None:
        said = ((None, job.id), (job.user_id, None), (None, None))
        found = (self._verdicts.get((job.job_class_id, user, one)) for user, one in said)
        return next((row for row in found if row is not None), None)

    def _pauses(self, job: Job) -> bool:
        """Whether a job that was recalled often waits longer before it borrows, and would have to borrow."""
        of_class = self._verdicts.get((job.job_class_id, None, None))
        if not job.evictions or of_class is None or not would_borrow(of_class.code, of_class.numbers):
            return False
        if self._most is None:
            row = Installation.objects.filter(id=1).first()
            self._most = row.max_evictions if row is not None else Policy().max_evictions
        after, waited = span(job.queue.hold_after), span(self._now - job.wait_from)
        return pauses(evictions=job.evictions, most=self._most, hold_after=after, waited=waited)

    def _readable(self, numbers: dict[str, int | str]) -> dict[str, int | str]:
        """Return the numbers without the name of a team that the reader may not see, and without our own ids."""
        told = {key: value for key, value in numbers.items() if key not in OUR_IDS}
        if "ahead" in told and told["ahead"] not in self._visible():
            told["ahead"] = OTHERS
        return told

    def _blockers(self, numbers: dict[str, int | str], told: dict[str, int | str]) -> Iterator[Blocker]:
        """Yield who is in the way, by name where the reader may see it."""
        if "ahead" in told:
            yield Blocker(text=str(told["ahead"]))
        if ids := _jobs_of(numbers):
            named = self._jobs_named()
            yield from dict.fromkeys(named.get(number, Blocker(text=OTHERS)) for number in ids)

    def _jobs_named(self) -> dict[int, Blocker]:
        """Return the jobs that any of the verdicts names and the reader may see."""
        if self._named is None:
            ids = {number for row in self._verdicts.values() for number in _jobs_of(row.numbers)}
            found = Job.objects.visible_to(self._by).filter(id__in=ids).select_related("team").defer("spec")
            self._named = {job.id: Blocker(text=f"{job.team.name}: {job.name}", job=job.uid) for job in found}
        return self._named

    def _visible(self) -> frozenset[str]:
        if self._teams is None:
            self._teams = frozenset(team.name for team in teams_seen(self._by, Permission.VIEW_JOB))
        return self._teams


@once
def _verdicts(classes: tuple[int, ...]) -> tuple[Verdict, ...]:
    rows = tuple(Verdict.objects.filter(job_class__in=classes).annotate(left=_LEFT).order_by("id"))
    for row in rows:
        row.numbers |= {name: number for name, number in (row.left or {}).items() if number is not None}
    return rows


def _jobs_of(numbers: Mapping[str, int | str]) -> list[int]:
    """Return the jobs that the numbers of a verdict name."""
    return [int(part) for part in f"{numbers.get('job', '')} {numbers.get('endless_jobs', '')}".split()]


def _plain(code: str, since: datetime) -> ReasonRow:
    return ReasonRow(code=code, permanent=False, summary=wording.sentence(code, {}), since=since)


def _on_silent_clusters(jobs: list[int]) -> dict[int, tuple[str, datetime]]:
    """Return, of jobs with tasks on a cluster that does not answer, its name and since when."""
    if not jobs:
        return {}
    waves = Wave.objects.filter(job__in=jobs, state__in=HOLDING, cluster__unreachable_since__isnull=False)
    rows = waves.order_by("-id").values_list("job_id", "cluster__name", "cluster__unreachable_since")
    return {job: (name, since) for job, name, since in rows if since is not None}


def _silent(cluster: str, since: datetime) -> ReasonRow:
    text = f"Cluster {cluster} has not answered since {since:%H:%M:%S} UTC: what this job does there is unknown."
    details: dict[str, int | str] = {"cluster": cluster}
    return ReasonRow(code=Trouble.CLUSTER_UNREACHABLE, permanent=False, summary=text, since=since, details=details)
