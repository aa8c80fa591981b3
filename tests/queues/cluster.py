"""What a cluster might show, made by hand: nodes, and the Job and pods of a wave."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from clusters.port import Inventory, NodeSeen, PodPhase, PodSeen, WaveSeen
from queues.models import Task, Wave
from queues.reconcile import Findings, reconcile
from queues.view import View
from tests.queues.lab import NOW, Lab

RUNNING, PENDING = PodPhase.RUNNING, PodPhase.PENDING
SUCCEEDED, FAILED, UNKNOWN = PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.UNKNOWN


def machine(name: str, **changes: Any) -> NodeSeen:  # noqa: ANN401  fields of NodeSeen
    """Return one of the laboratory's nodes."""
    seen = NodeSeen(
        name=name,
        labels={"gpu": "h100" if name.startswith("h") else "l40s", "kubernetes.io/hostname": name},
        taints=(),
        ready=True,
        cordoned=False,
        cpu=96_000,
        memory=2**40,
        pods=110,
        counted={"nvidia.com/gpu": 8},
        capacity={"nvidia.com/gpu": 8},
    )
    return replace(seen, **changes)


def pod_of(task: Task, phase: PodPhase = RUNNING, **changes: Any) -> PodSeen:  # noqa: ANN401  fields of PodSeen
    """Return the pod of a task on its witness node."""
    seen = PodSeen(
        namespace="team-nlp",
        name=f"tg-{task.wave_id}-{task.group}-{task.pod_index}",
        uid=f"uid-{task.wave_id}-{task.group}-{task.pod_index}",
        node=task.node.name,
        phase=phase,
        leaving=False,
        gated=False,
        cpu=task.cpu_milli,
        memory=task.memory,
        counted={"nvidia.com/gpu": task.units},
        wave=str(task.wave.uid),
        group=task.group,
        index=task.pod_index,
        started_at=None if phase is PENDING else NOW,
        exit_code={SUCCEEDED: 0, FAILED: 1}.get(phase),
    )
    return replace(seen, **changes)


def outsider(name: str, node: str | None, *, units: int = 1, phase: PodPhase = RUNNING) -> PodSeen:
    """Return a pod that is not ours."""
    return PodSeen(
        namespace="others",
        name=name,
        uid=name,
        node=node,
        phase=phase,
        leaving=False,
        gated=False,
        cpu=2000,
        memory=2**30,
        counted={"nvidia.com/gpu": units} if units else {},
    )


def object_of(wave: Wave, **changes: Any) -> WaveSeen:  # noqa: ANN401  fields of WaveSeen
    """Return the Kubernetes Job of a wave's first group."""
    seen = WaveSeen(
        namespace="team-nlp",
        name=f"tg-{wave.id}",
        uid=f"job-{wave.id}",
        wave=str(wave.uid),
        group=0,
        leaving=False,
        complete=False,
        failed=False,
    )
    return replace(seen, **changes)


class Cluster:
    """A cluster whose nodes, pods and Jobs are put there by hand, and that is reconciled with the laboratory."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        for flavor in (lab.h100, lab.l40s):
            flavor.node_labels = {"gpu": flavor.name}
            flavor.save()
        self.nodes = {node.name: machine(node.name) for node in lab.nodes}
        self.pods: dict[str, PodSeen] = {}
        self.objects: dict[str, WaveSeen] = {}
        self.devices: dict[str, dict[str, int]] = {}
        self.claimed: dict[str, dict[str, int]] = {}
        self.offered: dict[str, dict[str, int]] = {}
        self.taken: dict[str, dict[str, int]] = {}
        self.unseen: frozenset[str] = frozenset()
        self.now = NOW + timedelta(minutes=1)

    def run(self, wave: Wave, *phases: PodPhase, **changes: Any) -> None:  # noqa: ANN401  fields of PodSeen
        """Show the wave's Job and its pods, in these phases (the last one for the rest)."""
        self.objects[str(wave.uid)] = object_of(wave)
        tasks = list(wave.tasks.select_related("node", "wave").order_by("id"))
        for number, task in enumerate(tasks):
            seen = pod_of(task, phases[min(number, len(phases) - 1)], **changes)
            self.pods[seen.uid] = seen

    def remove(self, wave: Wave) -> None:
        """Show nothing of the wave any more."""
        self.objects.pop(str(wave.uid), None)
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod.wave != str(wave.uid)}

    def view(self, *, as_of: datetime | None = None) -> View:
        """Return what a list shows now."""
        inventory = Inventory(
            nodes=tuple(self.nodes.values()),
            pods=tuple(self.pods.values()),
            waves=tuple(self.objects.values()),
            devices=self.devices,
            claimed=self.claimed,
            offered=self.offered,
            taken=self.taken,
            unseen=self.unseen,
        )
        return View(inventory, as_of=as_of or self.now)

    def look(self, *, as_of: datetime | None = None) -> Findings:
        """List, and bring the rows in line."""
        return reconcile(self.lab.cluster.id, self.view(as_of=as_of), now=self.now)

    def later(self, **span: float) -> None:
        """Let time pass."""
        self.now += timedelta(**span)
