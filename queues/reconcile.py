"""Observed versus wanted: what a cluster shows becomes states of tasks, waves and jobs.

Feeding the same view again changes nothing. What is unknown has not failed; units are free when pods have ended.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from django.db import transaction
from django.db.models import Q, QuerySet

from clusters.port import Offer, Pin, Placement, PodSeen, WaveRef
from queues import adoption, endings, moves, smooth, tails
from queues.models import Job, Task, Wave
from queues.models.wave import Wish
from queues.nodes import Places, observe
from queues.occupants import count_outside
from queues.sight import SKEW, Sight, look
from queues.states import HOLDING, TASK_HOLDING, TaskState, WaveState
from queues.view import TaskKey, View, valid_uids
from tenants.models import Flavor

# A controller may have replaced the pod of a task that runs, in an object that people wrote.
WAITS_OR_RUNS = (TaskState.PENDING, TaskState.RUNNING)


@dataclass(slots=True, kw_only=True)
class Findings:
    """What a pass found: pods to pin, objects without a wave, jobs that moved, whether nodes changed or tasks ended.

    ``wishes``: something did not go as hoped, so that clusters may have to be told. ``held`` are the tasks that held
    as it began. ``adopted``: jobs came or went with objects that people made; ``refused`` are those that cannot be
    jobs, with what is to be told.
    """

    pins: list[Pin] = field(default_factory=list)
    strays: list[WaveRef] = field(default_factory=list)
    jobs: set[int] = field(default_factory=set)
    nodes: bool = False
    freed: bool = False
    wishes: bool = False
    held: set[TaskKey] = field(default_factory=set)
    adopted: bool = False
    refused: list[tuple[Offer, str]] = field(default_factory=list)


def reconcile(cluster: int, view: View, *, now: datetime) -> Findings:
    """Bring all rows of a cluster in line with a full list."""
    places = observe(cluster, view, now=now)
    findings = _follow(Wave.objects.filter(cluster_id=cluster, state__in=HOLDING), view, places, now)
    findings.nodes = count_outside(cluster, view, now=now) or places.changed
    findings.strays = list(_sweep(view))
    _adopt(findings, adoption.adopt(cluster, view, now=now))
    return findings


def follow(cluster: int, view: View, *, now: datetime) -> Findings:
    """Bring those rows in line that changes have touched since the last pass."""
    places = observe(cluster, view, now=now, names=view.machines)
    touched = Wave.objects.filter(cluster_id=cluster, state__in=HOLDING, uid__in=valid_uids(view.waves))
    findings = _take(touched, view, places, now)
    # A pod whose task held is accounted for, before and after: of our pods only the others are counted.
    odd = {node for key, nodes in view.active.items() if key not in findings.held for node in nodes}
    counted = view.machines | view.places | odd
    findings.nodes = count_outside(cluster, view, now=now, names=counted) or places.changed
    if view.offered:
        _adopt(findings, adoption.adopt(cluster, view, now=now, uids=view.offered))
    if view.arrived:
        findings.wishes |= _stop_again(Q(uid__in=valid_uids(view.arrived)), now=now)
    return findings


def awaits_list(cluster: int, view: View) -> bool:
    """Tell whether waves were told to go of which only a newer list can show that nothing is left."""
    told = Wave.objects.filter(
        cluster_id=cluster, state=WaveState.EVICTING, wish_due_at__isnull=True, stopped_at__gte=view.as_of - SKEW
    )
    return any(not any(True for _ in view.pods_of(str(uid))) for uid in told.values_list("uid", flat=True))


def _follow(waves: QuerySet[Wave], view: View, places: Places, now: datetime) -> Findings:
    """Look at waves of which most are as they should be, then once more at the others with their jobs locked."""
    findings = Findings()
    # What is large and not looked at is left where it is.
    light = waves.select_related("job").defer("job__spec", "job__labels", "wish_error").order_by("id")
    sights = [look(wave, tasks, view, places, now=now) for wave, tasks in _with_tasks(light)]
    _note(sights, places, findings)
    moves = [sight for sight in sights if sight.moves]
    going = {sight.wave.id: sight.wave.job_id for sight in moves if smooth.takes(sight)}
    moved = smooth.move_all(going, partial(look, view=view, places=places, now=now), now=now)
    rough = [sight for sight in moves if sight.wave.id not in going]
    _act(moved, [*rough, *moved.left], view, places, now, findings)
    return findings


def _take(touched: QuerySet[Wave], view: View, places: Places, now: datetime) -> Findings:
    """Look at waves with their jobs locked at once: changes came, so nearly all of them move."""
    findings = Findings()
    ids = dict(touched.order_by("id").values_list("id", "job_id"))
    moved = smooth.move_all(ids, partial(look, view=view, places=places, now=now), now=now)
    _note(moved.sights, places, findings)
    _act(moved, moved.left, view, places, now, findings)
    return findings


def _note(sights: Iterable[Sight], places: Places, findings: Findings) -> None:
    """Note what held as it was looked at, and which pods may go to their nodes."""
    gated: list[tuple[Task, PodSeen]] = []
    for sight in sights:
        uid = str(sight.wave.uid)
        findings.held |= {(uid, task.group, task.pod_index) for task in sight.tasks if task.state in TASK_HOLDING}
        gated += _gated(sight)
    findings.pins += _pins(gated, places)


def _act(
    moved: smooth.Moved, rough: Sequence[Sight], view: View, places: Places, now: datetime, findings: Findings
) -> None:
    """Note what has moved together, and move the others one by one."""
    findings.jobs |= moved.jobs
    findings.freed |= moved.ended
    findings.wishes |= moved.due or bool(rough)
    for sight in rough:
        _move(sight, view, places, now, findings)


def _adopt(findings: Findings, found: adoption.Adopted) -> None:
    findings.jobs |= found.jobs
    findings.adopted = bool(found.jobs)
    findings.refused = found.refused


def _with_tasks(waves: QuerySet[Wave]) -> Iterator[tuple[Wave, list[Task]]]:
    found = list(waves)
    tasks: dict[int, list[Task]] = {wave.id: [] for wave in found}
    for task in Task.objects.filter(wave__in=tasks).order_by("id"):
        tasks[task.wave_id].append(task)
    return ((wave, tasks[wave.id]) for wave in found)


def _move(stale: Sight, view: View, places: Places, now: datetime, findings: Findings) -> None:
    """Look again with the job locked, then write what is new and let the job go on."""
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).select_related("queue").get(id=stale.wave.job_id)
        wave = Wave.objects.select_for_update().get(id=stale.wave.id)
        if wave.state == WaveState.ENDED:
            return
        wave.job = job
        sight = look(wave, list(wave.tasks.order_by("id")), view, places, now=now)
        moves.write_tasks(sight)
        tails.want(sorted(sight.ended, key=moves.blame), now=now)
        moves.move_wave(sight, now=now)
        if moves.concerns_job(sight):
            moves.move_job(sight, now=now)
        if sight.ended or not sight.holds:
            endings.settle(job.id, now=now)
    findings.jobs.add(job.id)
    findings.freed |= bool(sight.ended)


def _gated(sight: Sight) -> Iterator[tuple[Task, PodSeen]]:
    """Yield the tasks whose pods wait for their node, unless the wave is on its way out."""
    if sight.wave.state == WaveState.EVICTING:
        return
    for task in sight.tasks:
        pod = sight.pods.get(task.id)
        if pod is not None and pod.gated and not pod.leaving and sight.now[task.id].state in WAITS_OR_RUNS:
            yield task, pod


def _pins(gated: Sequence[tuple[Task, PodSeen]], places: Places) -> Iterator[Pin]:
    """Yield where gated pods may go: to the witness of their tasks."""
    if not gated:
        return
    placements = dict(Flavor.objects.values_list("id", "placement"))
    for task, pod in gated:
        yield Pin(
            namespace=pod.namespace,
            pod=pod.name,
            node=places.names[task.node_id],
            task=task.index,
            placement=Placement(placements.get(task.flavor_id, Placement.PIN)),
        )


def _sweep(view: View) -> Iterator[WaveRef]:
    """Have waves told to go again whose objects are still there; yield objects of waves that we do not know."""
    there = view.known_waves()
    known = Wave.objects.filter(uid__in=valid_uids(there))
    before = view.as_of - SKEW
    over = ~Q(stopped_at__gte=before) & Q(state=WaveState.ENDED, uid__in=valid_uids(there))
    back = Q(stopped_at__lt=before, state=WaveState.EVICTING, uid__in=valid_uids(view.standing_waves()))
    _stop_again(over | back, now=view.as_of)
    strays = there.keys() - {str(uid) for uid in known.values_list("uid", flat=True)}
    for uid in sorted(strays):
        yield there[uid]


def _stop_again(waves: Q, *, now: datetime) -> bool:
    """Have waves told to go once more that were told before: a create that came late has made their objects anew."""
    told = Wave.objects.filter(waves, state__in=[WaveState.EVICTING, WaveState.ENDED], wish_due_at=None)
    ids = list(told.values_list("id", flat=True))
    again = Wave.objects.filter(id__in=ids, wish_due_at=None)
    # What was told is not enough: only a list that is newer than the next stop shows that nothing is left.
    return bool(ids and again.update(wish=Wish.STOP, wish_due_at=now, stopped_at=None))
