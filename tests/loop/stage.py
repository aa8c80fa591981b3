"""A stage for the loop: the laboratory's rows, an emulated cluster with its nodes, and hands to turn each wheel."""

import time
from collections.abc import Callable
from typing import Any

from django.utils import timezone

from clusters.emulator import NodeGroup
from clusters.kube import KubeCluster
from clusters.port import PodPhase, PodSeen, WaveSeen
from queues import cycle, reconcile, release
from queues.models import Job, Task, Wave
from queues.states import ENDED, JobState
from queues.view import View
from tests.queues.lab import Lab

GPU = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}


def machines() -> tuple[NodeGroup, ...]:
    """Return the laboratory's nodes as an emulator starts with them."""
    return (
        NodeGroup(name="h{n}", count=4, labels={"gpu": "h100"}, allocatable=GPU),
        NodeGroup(name="l{n}", count=2, labels={"gpu": "l40s"}, allocatable=GPU),
    )


class Stage:
    """Turns the loop by hand against a cluster whose nodes carry the label ``gpu`` and perhaps others."""

    def __init__(self, lab: Lab, cluster: KubeCluster, **labels: str) -> None:
        self.lab, self.cluster = lab, cluster
        for flavor in (lab.h100, lab.l40s):
            flavor.node_labels = {"gpu": flavor.name, **labels}
            flavor.save()
        self.fences = release.Fences()

    def submit(self, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
        """Submit a job whose pods run as ``run_for``, ``exit_code``, ``forever`` … say."""
        steer = ("run_for", "exit_code", "forever", "never_start", "waiting_reason", "ignore_term")
        notes = {f"tidegate.test/{key.replace('_', '-')}": str(spec.pop(key)) for key in steer if key in spec}
        return self.lab.submit(now=timezone.now(), annotations=notes or None, **spec)

    def turn(self) -> None:
        """Turn once: list, decide, tell the cluster, list again."""
        self.look()
        cycle.run_cycle(timezone.now)
        self.release()
        self.look()

    def release(self) -> int:
        """Tell the cluster what is due."""
        return release.release_due(timezone.now, clusters={"default": self.cluster}, fences=self.fences)

    def look(self) -> reconcile.Findings:
        """List the cluster and bring rows in line, as the watcher would."""
        as_of = timezone.now()
        view = View(self.cluster.inventory(), as_of=as_of)
        findings = reconcile.reconcile(self.lab.cluster.id, view, now=timezone.now())
        self.cluster.pin(findings.pins)
        for offer, text in findings.refused:
            self.cluster.refuse(offer, text)
        return findings

    def until(self, condition: Callable[[], bool], *, seconds: float = 60) -> None:
        """Turn until the condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, [(job.name, job.state, job.reason_text) for job in Job.objects.all()]
            self.turn()

    def until_ended(self, job: Job, *, seconds: float = 60) -> JobState:
        """Turn until the job has ended; return how."""
        self.until(lambda: state(job) in ENDED, seconds=seconds)
        return state(job)

    def finish(self, job: Job) -> None:
        """Let what runs of a job succeed now."""
        finish(self.cluster, job)

    def objects(self) -> tuple[WaveSeen, ...]:
        """Return the Kubernetes Jobs of our waves that are there."""
        ours = {str(uid) for uid in Wave.objects.values_list("uid", flat=True)}
        return tuple(seen for seen in self.cluster.inventory().waves if seen.wave in ours)

    def pods(self) -> tuple[PodSeen, ...]:
        """Return the pods of our waves that are there."""
        ours = {str(uid) for uid in Wave.objects.values_list("uid", flat=True)}
        return tuple(pod for pod in self.cluster.inventory().pods if pod.wave in ours)


def finish(cluster: KubeCluster, job: Job) -> None:
    """Let the pods of a job that run succeed now; so the test says how long they run, and not the machine."""
    ours = {str(uid) for uid in job.waves.values_list("uid", flat=True)}
    for seen in cluster.inventory().pods:
        if seen.wave in ours and seen.phase is PodPhase.RUNNING:
            finish_pod(cluster, seen)


def finish_pod(cluster: KubeCluster, seen: PodSeen) -> None:
    """Let a pod that runs succeed now."""
    path = f"/api/v1/namespaces/{seen.namespace}/pods/{seen.name}"
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": f"{timezone.now():%Y-%m-%dT%H:%M:%SZ}"}
    pod = cluster.api.ask("get", path)
    states = [{**each, "state": {"terminated": ended}} for each in pod["status"]["containerStatuses"]]
    body = {"status": {"phase": "Succeeded", "containerStatuses": states}}
    cluster.api.ask("patch", f"{path}/status", body=body, media="application/strategic-merge-patch+json")


def state(job: Job) -> JobState:
    """Return where a job stands now."""
    job.refresh_from_db()
    return JobState(job.state)


def tried(job: Job, waves: int) -> bool:
    """Tell whether this many waves of a job have been tried and none is on its way (what passes is easily missed)."""
    return job.waves.count() == waves and state(job) in {JobState.QUEUED, JobState.FAILED}


def units_in_use() -> int:
    """Return the units that tasks hold now."""
    return sum(task.units for task in Task.objects.filter(state__in=["pending", "running", "leaving"]))


def events(job: Job) -> list[str]:
    """Return the types of a job's events in order."""
    return list(job.events.order_by("id").values_list("type", flat=True))
