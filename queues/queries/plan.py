"""What would become of a job if it were submitted now: the rules on a snapshot in which it waits, and no writing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from queues import ceilings, classes, forecasting, snapshot, submission, wording
from queues.admission.decide import decide
from queues.admission.outcome import Admission, Outcome
from queues.admission.quota import in_use
from queues.admission.ranking import ranking
from queues.admission.reasons import PERMANENT, Code, Reason
from queues.admission.world import Ask, Heads, JobClass, JobShape, Waiting, World
from queues.models import Job
from queues.queries import ranks
from queues.queries.estimates import summary
from queues.queries.reasons import OTHERS, OUR_IDS
from queues.queries.rows.reasons import Action, Estimate, Plan, Position, ReasonRow
from queues.simulation.expected import Expected, Present, Unknown
from queues.simulation.forecast import Forecast
from queues.snapshot import Snapshot
from queues.spec import Spec, hidden, to_json
from queues.states import ACTIVE
from queues.waiting import milliseconds, moment, span
from tenants.errors import Invalid, Notice
from tenants.permissions import Actor, Permission, visible_teams

NEWEST = 1 << 62  # an id that is higher than any job's or class's

GoOn = Callable[[], bool]


def plan(by: Actor, data: object, *, now: datetime, go_on: GoOn = lambda: True) -> Plan:
    """Return what a compact spec would come to; ``go_on`` says how long its start may be looked for.

    What is wrong with the spec is part of the answer; a team that ``by`` may not submit to is not found, or refused.
    """
    name = submission.team_named(data)
    catalog = submission.catalog(by, teams=None if name is None else [name])
    try:
        spec = submission.read(data, catalog, by=by)
    except Invalid as error:
        return Plan(valid=False, errors=error.fields, as_of=now)
    warnings = [*ceilings.warnings(spec, catalog.ceilings), *hidden.warnings(to_json(spec)), *_taken(spec)]
    with snapshot.load(now) as seen:
        ours = _Ours(seen, spec, by, now)
        outcome = decide(ours.world, ours)
        warnings += _recalls(outcome)
        return _told(ours, outcome, by, now=now, warnings=warnings, go_on=go_on)


class _Ours:
    """The snapshot with one more waiting job, newest of all, in a class of its own."""

    def __init__(self, seen: Snapshot, spec: Spec, by: Actor, now: datetime) -> None:
        self._heads: Heads = seen.heads
        self.seen, self.spec = seen, spec
        self.ask: Ask = classes.ask_of(spec)
        self.job_class = JobClass(id=NEWEST, queue=spec.queue.id, priority=spec.priority.value, ask=self.ask)
        at = milliseconds(now)
        self.row = Waiting(
            id=NEWEST,
            job_class=NEWEST,
            user=by.user.pk,
            wait_from=at,
            submitted=at,
            tasks=spec.tasks if spec.shape is JobShape.INDEPENDENT else 1,
            limit=None if spec.time_limit is None else span(spec.time_limit),
            grace=span(min(spec.grace, spec.queue.max_grace)),
        )
        self.world: World = replace(seen.world, classes=(*seen.world.classes, self.job_class))

    def users(self, job_class: int) -> tuple[Waiting, ...]:
        """Return the first waiting job of each user of a class."""
        return (self.row,) if job_class == NEWEST else self._heads.users(job_class)

    def changed(self, mark: object) -> tuple[object, None]:
        """Return that it is not known what has changed: this is asked once."""
        return mark, None

    def expect(self, heads: Iterable[Waiting]) -> None:
        """Be told behind which first jobs further ones may be asked for."""
        self._heads.expect(head for head in heads if head.id != NEWEST)

    def after(self, job_class: int, user: int, last: Waiting) -> Iterator[Waiting]:
        """Yield the user's further jobs of a class."""
        return iter(()) if job_class == NEWEST else self._heads.after(job_class, user, last)

    @property
    def flavors(self) -> tuple[int, ...]:
        """Return all flavors of its wish, in order."""
        return tuple(dict.fromkeys(flavor for group in self.ask.groups for flavor in group.flavors))

    def needs(self, flavor: int, flavors: tuple[int, ...]) -> int:
        """Return the units of a flavor that it takes at once, if its groups take these."""
        pairs = zip(self.ask.groups, flavors, strict=True)
        return sum(group.tasks * group.units for group, taken in pairs if taken == flavor)

    def present(self) -> Present:
        """Return what its forecast starts from."""
        present = forecasting.present_of(self.seen)
        return replace(
            present,
            world=self.world,
            waiting=(*present.waiting, self.row),
            classes={**present.classes, NEWEST: self.job_class},
        )


def _told(ours: _Ours, outcome: Outcome, by: Actor, *, now: datetime, warnings: list[Notice], go_on: GoOn) -> Plan:
    admission = next((row for row in outcome.admissions if row.job == NEWEST), None)
    reason = None if admission else _reason(ours, outcome, by, now)
    permanent = reason is not None and reason.permanent
    source = _source(ours, admission)
    return Plan(
        valid=True,
        fits=not permanent,
        starts_now=admission is not None,
        written=_written(ours.spec),
        units=ours.spec.units,
        most_units=ours.spec.most_units,
        needs=source.needs,
        flavor=source.flavor,
        own=source.own,
        borrowed=source.borrowed,
        reason=reason,
        position=None if admission or permanent else _position(ours),
        estimate=_estimate(ours, now, go_on, starts_now=admission is not None, permanent=permanent),
        warnings=tuple(warnings),
        as_of=now,
    )


def _written(spec: Spec) -> str:
    """Return how a manifest was read: ``JobSet: 2 x 8 h100 (workers) and 1 x 4 h100 (eval), all together``."""
    if spec.manifest is None:
        return ""
    groups = [
        f"{group.tasks} x {group.units} {'/'.join(flavor.name for flavor in group.flavors)}"
        + (f" ({group.name})" if group.name else "")
        for group in spec.groups
    ]
    together = ", all together" if spec.tasks > 1 else ""
    return f"{spec.manifest['kind']}: {' and '.join(groups)}{together}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    flavor: str
    needs: int
    own: int
    borrowed: int


def _source(ours: _Ours, admission: Admission | None) -> _Source:
    """Return whose units it takes, of the flavor that it gets now or else wishes first."""
    flavors = admission.flavors if admission else tuple(group.flavors[0] for group in ours.ask.groups)
    tree, lines = in_use(ours.seen.world)
    line, needs = lines[flavors[0]], ours.needs(flavors[0], flavors)
    left = max(0, line.promised_room(tree.number[ours.spec.team.id]))
    own = needs if admission and not admission.borrowed else min(needs, left)
    return _Source(flavor=line.flavor.name, needs=needs, own=own, borrowed=needs - own)


def _reason(ours: _Ours, outcome: Outcome, by: Actor, now: datetime) -> ReasonRow:
    """Return why it would wait, without the name of a team that the reader may not see."""
    said = {(row.user, row.job): row.reason for row in outcome.verdicts if row.job_class == NEWEST}
    keys = ((None, NEWEST), (ours.row.user, None), (None, None))
    found = next((said[key] for key in keys if key in said), Reason(code=Code.BEHIND))
    numbers = {key: value for key, value in found.numbers if key not in OUR_IDS}
    if "ahead" in numbers:
        teams = visible_teams(by, Permission.VIEW_JOB).filter(name=numbers["ahead"])
        numbers["ahead"] = numbers["ahead"] if teams.exists() else OTHERS
    return ReasonRow(
        code=found.code,
        permanent=found.code in PERMANENT,
        summary=wording.sentence(found.code, numbers),
        since=now,
        details=numbers,
        actions=tuple(Action(text=text) for text in wording.helps(found.code, numbers)),
    )


def _position(ours: _Ours) -> Position | None:
    for flavor in ours.flavors:
        found = ranking(ours.world, ours, flavor=flavor, limit=ranks.EXACT)
        for rank in found:
            if rank.job == NEWEST:
                return Position(rank=rank.position, units_ahead=rank.units_ahead)
        if len(found) >= ranks.EXACT:
            return Position(rank=len(found) + 1, units_ahead=found[-1].units_ahead, about=True)
    return None


def _estimate(ours: _Ours, now: datetime, go_on: GoOn, *, starts_now: bool, permanent: bool) -> Estimate | None:
    if permanent:
        return None
    if starts_now:
        return Estimate(p50=now, p90=now, basis="room", cause="", summary=summary("room", ""), as_of=now)
    forecast = Forecast(ours.present())
    forecast.run(go_on, job=NEWEST)
    return _as_row(forecast.starts().get(NEWEST) or forecast.unknown(NEWEST, ours.row.user), now)


def _as_row(found: Expected | Unknown, now: datetime) -> Estimate:
    if isinstance(found, Unknown):
        words = summary("", found.cause, running=found.running, before=found.before)
        return Estimate(p50=None, p90=None, basis="", cause=found.cause, summary=words, as_of=now)
    return Estimate(
        p50=moment(found.p50),
        p90=moment(found.p90),
        basis=found.basis,
        cause="",
        summary=summary(found.basis, ""),
        as_of=now,
    )


def _taken(spec: Spec) -> Iterator[Notice]:
    """Warn where the external id is another job's: then nothing would be queued."""
    if spec.external_id is None:
        return
    jobs = Job.objects.filter(team=spec.team.id, external_id=spec.external_id, state__in=sorted(ACTIVE))
    if jobs.exists():
        detail = f"There is already a job with external_id {spec.external_id} in {spec.team.name}."
        yield Notice(code="external_id_taken", detail=detail)


def _recalls(outcome: Outcome) -> Iterator[Notice]:
    """Warn where others would have to make room."""
    jobs = {row.attempt for row in outcome.evictions if row.job == NEWEST and not row.surplus}
    if jobs:
        what = "1 job that borrows" if len(jobs) == 1 else f"{len(jobs)} jobs that borrow"
        yield Notice(code="recalls", detail=f"To start, it takes back what is its team's: {what} would have to stop.")
