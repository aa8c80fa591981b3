"""Why a job stands where it stands: its own state first, then its user's verdict, then its class's (SEMANTICS 10)."""

from collections.abc import Iterable
from datetime import datetime

from queues import wording
from queues.admission.reasons import Code
from queues.models import Job, Verdict
from queues.queries.rows import Action, Blocker, ReasonRow
from queues.states import ENDED, JobState
from tenants.permissions import Actor, Permission, visible_teams

OTHERS = "another team"

Verdicts = dict[tuple[int, int | None], Verdict]


class Reasons:
    """The reasons of some jobs, read in one statement (two where a reason names a team)."""

    def __init__(self, jobs: Iterable[Job], by: Actor) -> None:
        """Read the verdicts of the jobs that wait."""
        classes = {job.job_class_id for job in jobs if job.waiting_tasks}
        self._verdicts: Verdicts = {}
        if classes:
            rows = Verdict.objects.filter(job_class__in=classes).order_by("id")
            self._verdicts = {(row.job_class_id, row.user_id): row for row in rows}
        self._by = by
        self._teams: frozenset[str] | None = None

    def of(self, job: Job) -> ReasonRow | None:
        """Return the one current reason of a job; None where nothing needs one."""
        state = JobState(job.state)
        if state is JobState.HELD:
            return _plain(Code.HELD, job.state_since)
        if job.backoff_until is not None:
            return self._backing_off(job, job.backoff_until)
        if job.waiting_tasks and state not in ENDED and state is not JobState.EVICTING:
            return self._waiting(job)
        if job.reason_code:
            text = job.reason_text or wording.sentence(job.reason_code, {})
            return ReasonRow(code=job.reason_code, permanent=False, summary=text, since=job.state_since)
        return None

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
        verdict = self._verdicts.get((job.job_class_id, job.user_id)) or self._verdicts.get((job.job_class_id, None))
        if verdict is None:
            return _plain(wording.NOT_DECIDED, job.state_since)
        numbers = self._readable(verdict.numbers)
        ahead = numbers.get("ahead")
        return ReasonRow(
            code=verdict.code,
            permanent=verdict.permanent,
            summary=wording.sentence(verdict.code, numbers),
            # A class may have its reason for longer than this job waits.
            since=max(verdict.since, job.submitted_at),
            details=numbers,
            blockers=() if ahead is None else (Blocker(text=str(ahead)),),
            actions=tuple(Action(text=text) for text in wording.helps(verdict.code, numbers)),
        )

    def _readable(self, numbers: dict[str, int | str]) -> dict[str, int | str]:
        """Return the numbers without the name of a team that the reader may not see."""
        if "ahead" not in numbers or numbers["ahead"] in self._visible():
            return numbers
        return {**numbers, "ahead": OTHERS}

    def _visible(self) -> frozenset[str]:
        if self._teams is None:
            teams = visible_teams(self._by, Permission.VIEW_JOB)
            self._teams = frozenset(teams.values_list("name", flat=True))
        return self._teams


def _plain(code: str, since: datetime) -> ReasonRow:
    return ReasonRow(code=code, permanent=False, summary=wording.sentence(code, {}), since=since)
