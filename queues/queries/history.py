"""What happened to a job: events, attempts with their tasks, and its Kubernetes objects."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from uuid import UUID

from django.db.models import Count, F, QuerySet, Sum, Window
from django.db.models.functions import RowNumber

from clusters import kinds, manifests, paths, raw, rendezvous
from clusters.port import Launch, RawObject
from queues import exits
from queues.evictions import ANOTHER
from queues.launches import launch_of, launches_of
from queues.models import Job, JobEvent, KeptLog, Node, Task, Wave
from queues.queries.borrowing import borrowed_by
from queues.queries.jobs import flavor_names, groups_of, visible_job, waves_of
from queues.queries.rows.history import AttemptRow, EventRow, TaskRow, WaveRow
from queues.queries.rows.jobs import Manifests
from queues.spec.hidden import masked
from queues.states import HOLDING
from tenants.permissions import Actor
from tenants.queries import kinds as gpu_types

# A job that has no wave yet is rendered as if it had been admitted to machines of these names.
MOST_NAMED = 3
UNKNOWN_NODE = "chosen-when-admitted"


def events(
    by: Actor, uid: UUID | None = None, *, after: int = 0, limit: int = 200, newest_first: bool = False
) -> tuple[EventRow, ...]:
    """Return events of one visible job (None: of all visible jobs) behind id ``after``, oldest first unless asked."""
    rows = found_events(by, uid).filter(id__gt=after)
    return event_rows(rows.order_by("-id" if newest_first else "id")[:limit], by)


def found_events(by: Actor, uid: UUID | None = None) -> QuerySet[JobEvent]:
    """Return the events of one visible job (None: of all visible jobs), for ``event_rows``."""
    if uid is not None:
        found = JobEvent.objects.filter(job=visible_job(by, uid))
    else:
        found = JobEvent.objects.filter(job__in=Job.objects.visible_to(by))
    return found.select_related("job").defer("job__spec")


def event_rows(events: Iterable[JobEvent], by: Actor) -> tuple[EventRow, ...]:
    """Return events, with their jobs, as rows; other jobs are named where the reader may see them."""
    events = tuple(events)
    others = {uid for event in events for uid in _others(event)}
    names: dict[str, str] = {}
    if others:
        seen = Job.objects.visible_to(by).filter(uid__in=others).values_list("uid", "name", "team__name")
        names = {str(uid): f"{name} of {team}" for uid, name, team in seen}
    return tuple(_event_row(event, names) for event in events)


def _others(event: JobEvent) -> list[str]:
    """Return the jobs on the other side of a recall."""
    claimant = [event.details["claimant"]] if "claimant" in event.details else []
    return claimant + [victim["job"] for victim in event.details.get("victims", ())]


def _event_row(event: JobEvent, names: Mapping[str, str]) -> EventRow:
    summary, details = event.summary, dict(event.details)
    told = [names[uid] for uid in dict.fromkeys(_others(event)) if uid in names]
    if "claimant" in details:
        summary = summary.replace(ANOTHER, told[0], 1) if told else summary
        details["claimant"] = details["claimant"] if told else None
    if "victims" in details:
        more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
        summary += f": {', '.join(told[:MOST_NAMED])}{more}" if told else ""
        details["victims"] = [
            victim if victim["job"] in names else victim | {"job": None} for victim in details["victims"]
        ]
    return EventRow(
        id=event.id,
        at=event.at,
        type=event.type,
        actor=event.actor,
        summary=summary,
        details=details,
        job=event.job.uid,
        job_name=event.job.name,
    )


def attempts(by: Actor, uid: UUID, *, tasks: int = 500) -> tuple[AttemptRow, ...]:
    """Return a visible job's attempts, newest first, each wave with at most ``tasks`` of its tasks."""
    job = visible_job(by, uid)
    waves = waves_of(job)
    if not waves:
        return ()
    names = flavor_names()
    totals: dict[int, tuple[int, int]] = {}
    inside: dict[int, list[Task]] = defaultdict(list)
    numbered = Task.objects.filter(wave__job=job).annotate(
        place=Window(RowNumber(), partition_by=F("wave_id"), order_by=F("index").asc()),
        count=Window(Count("id"), partition_by=F("wave_id")),
        all_units=Window(Sum("units"), partition_by=F("wave_id")),
    )
    for task in numbered.filter(place__lte=tasks).select_related("node").order_by("wave_id", "index", "id"):
        inside[task.wave_id].append(task)
        totals[task.wave_id] = (task.count, task.all_units)
    kept: set[int] = set()
    # Lines are kept of what has ended.
    if any(task.ended_at for some in inside.values() for task in some):
        kept |= set(KeptLog.objects.filter(task__wave__job=job).exclude(text="").values_list("task_id", flat=True))
    found: dict[int, list[WaveRow]] = defaultdict(list)
    now = borrowed_by(job.team_id) if any(wave.state in HOLDING for wave in waves) else {}
    for wave in waves:
        count, units = totals.get(wave.id, (0, 0))
        row = _wave(wave, inside[wave.id], units=units, count=count, names=names, kept=kept)
        found[wave.attempt].append(replace(row, borrowed=wave.id in now) if wave.state in HOLDING else row)
    return tuple(AttemptRow(number=number, waves=tuple(found[number])) for number in sorted(found, reverse=True))


def _wave(wave: Wave, tasks: list[Task], *, units: int, count: int, names: dict[int, str], kept: Set[int]) -> WaveRow:
    return WaveRow(
        uid=wave.uid,
        number=wave.number,
        cycle=wave.cycle,
        state=wave.state,
        flavors=tuple(names.get(flavor, "?") for flavor in dict.fromkeys(wave.flavors)),
        units=units,
        borrowed=wave.borrowed,
        surplus=wave.surplus,
        admitted_at=wave.admitted_at,
        launched_at=wave.launched_at,
        started_at=wave.started_at,
        ended_at=wave.ended_at,
        outcome=wave.outcome,
        error=wave.wish_error,
        tasks=tuple(_task(task, kept=task.id in kept) for task in tasks),
        tasks_left_out=count - len(tasks),
    )


def _task(task: Task, *, kept: bool) -> TaskRow:
    return TaskRow(
        index=task.index,
        group=task.group,
        node=task.node.name,
        units=task.units,
        state=task.state,
        pod=task.pod,
        started_at=task.started_at,
        saved_at=task.saved_at,
        ended_at=task.ended_at,
        exit_code=task.exit_code,
        container=task.container,
        reason=task.reason,
        message=task.message,
        meaning=exits.meaning(task.exit_code, task.reason),
        log_kept=kept,
    )


def manifest(by: Actor, uid: UUID) -> Manifests:
    """Return the Kubernetes objects of a visible job's newest wave, or those that it would get where it has none."""
    job = visible_job(by, uid)
    wave = next((wave for wave in waves_of(job) if wave.base_id is None), None)
    if wave is None:
        launch = _imagined(job)
    else:
        wave.job = job
        launch = launches_of([wave])[wave.id]
    if launch.raw is not None:
        return _written(launch, launch.raw)
    objects = [manifests.job(launch, group) for group in launch.groups]
    if rendezvous.needs_service(launch):
        owner = {"metadata": {**objects[0]["metadata"], "uid": "(given by Kubernetes)"}}
        objects.append(manifests.service(launch, owner=owner))
    return Manifests(objects=tuple(masked(each) for each in objects))


def _written(launch: Launch, wanted: RawObject) -> Manifests:
    """Return what people wrote as it is sent to the cluster, or as the object there is let run."""
    kind = kinds.BY_KEY[wanted.kind]
    sent = raw.release(launch, dict(wanted.manifest), kind) if wanted.adopted else raw.new(launch, wanted)
    # As people write it: stored JSON has forgotten the order.
    ordered: raw.Manifest = {key: sent[key] for key in ("apiVersion", "kind", "metadata", "spec") if key in sent}
    return Manifests(objects=(masked(ordered),), changed=tuple(paths.differences(wanted.manifest, ordered)))


def _imagined(job: Job) -> Launch:
    groups = groups_of([job])[job.id]
    wave = Wave(uid=job.uid, job=job, number=1, attempt=job.attempt, flavors=[group.flavors[0] for group in groups])
    tasks, index = [], 0
    for group in groups:
        for place in range(group.tasks):
            node = Node(name=f"{UNKNOWN_NODE}-{index}" if group.tasks > 1 else UNKNOWN_NODE)
            tasks.append(Task(wave=wave, group=group.index, index=index, pod_index=place, node=node))
            index += 1
    return launch_of(wave, tasks, groups, {kind.id: kind for kind in gpu_types()})
