"""The Job controller: makes the pods of each Job, counts their ends, says when the Job is over."""

from clusters.emulator.clock import parse
from clusters.emulator.core import Core, condition, controller, holds, leaving, with_condition
from clusters.emulator.deletion import delete
from clusters.emulator.errors import ApiError
from clusters.emulator.events import Recorder
from clusters.emulator.jobpods import (
    TRACKING,
    Census,
    all_decided,
    count,
    failures_of,
    index_of,
    missing,
    new_pod,
    take_census,
    too_many_lost,
)
from clusters.emulator.kinds import JOBS, PODS
from clusters.emulator.registry import Registry
from clusters.emulator.store import Change, Object

SOURCE = "job-controller"
_LONGEST_PAUSE = 64.0


class Jobs:
    """Brings each Job's pods and status in line with its spec, whenever one of them changes."""

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        """Follow Jobs and their pods."""
        self._registry = registry
        self._core: Core = registry.core
        self._recorder = recorder
        self._refusals: dict[str, int] = {}
        self._core.store.listen(self._heed)

    def resume(self) -> None:
        """Look at every Job, as after a start."""
        for job in self._core.store.bodies(JOBS):
            self._soon(job["metadata"]["namespace"], job["metadata"]["name"])
        for pod in self._core.store.bodies(PODS):
            self._heed_pod(pod)

    def _heed(self, change: Change) -> None:
        body = change.new.body
        if change.kind is PODS:
            self._heed_pod(body)
        elif change.kind is JOBS:
            metadata = body["metadata"]
            if change.deleted:
                uid = metadata["uid"]
                self._refusals.pop(uid, None)
                self._core.agenda.cancel(("job", uid))
                self._core.agenda.soon(("job end", uid), lambda: self._release_all(uid))
            else:
                self._soon(metadata["namespace"], metadata["name"])

    def _heed_pod(self, pod: Object) -> None:
        owner = controller(pod, "Job")
        if owner:
            self._soon(pod["metadata"]["namespace"], owner["name"])
        elif TRACKING in (pod["metadata"].get("finalizers") or ()):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            self._core.agenda.soon(("orphan pod", namespace, name), lambda: self._release_named(namespace, name))

    def _soon(self, namespace: str, name: str) -> None:
        self._core.agenda.soon(("job", namespace, name), lambda: self._sync(namespace, name))

    def _sync(self, namespace: str, name: str) -> None:
        """Do for one Job what is due now."""
        job = self._core.store.get(JOBS, namespace, name)
        if job is None:
            return
        uid = job["metadata"]["uid"]
        pods = [body for kind, body in self._core.store.owned(uid) if kind is PODS]
        over = holds(job, "Complete") or holds(job, "Failed")
        status = {**(job.get("status") or {})}
        census = take_census(job, pods)
        if not over:
            status = count(job, status, census)
            if not leaving(job):
                self._advance(job, status, census)
                pods = [body for kind, body in self._core.store.owned(uid) if kind is PODS]
                after = take_census(job, pods)
                self._conclude(job, status, after)
                _tell(status, after)
            self._registry.write(JOBS, {**job, "status": status})
        for pod in census.counted if not (over or leaving(job)) else pods:
            self._release(pod)

    def _advance(self, job: Object, status: Object, census: Census) -> None:
        """Start, stop or make pods, or find that the Job is deciding its end."""
        spec, now = job["spec"], self._core.stamp()
        if condition({"status": status}, "FailureTarget") or condition({"status": status}, "SuccessCriteriaMet"):
            self._stop(job, census.active)
        elif status.get("failed", 0) > spec["backoffLimit"]:
            self._target(job, status, census, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif too_many_lost(job, status):
            message = "Job has exceeded the specified maximal number of failed indexes"
            self._target(job, status, census, "MaxFailedIndexesExceeded", message)
        elif all_decided(job, status):
            self._target(job, status, census, "FailedIndexes", "Job has failed indexes")
        elif self._too_long(job, status):
            message = "Job was active longer than specified deadline"
            self._target(job, status, census, "DeadlineExceeded", message)
        elif _succeeded(spec, status, census):
            message = "Reached expected number of succeeded pods"
            status |= with_condition(status, _condition("SuccessCriteriaMet", "CompletionsReached", message, now))
            self._stop(job, census.active)
        elif spec.get("suspend"):
            self._suspend(job, status, census)
        else:
            self._run(job, status, census)

    def _target(self, job: Object, status: Object, census: Census, reason: str, message: str) -> None:
        """Decide that the Job fails: its other pods go first."""
        now = self._core.stamp()
        status |= with_condition(status, _condition("FailureTarget", reason, message, now))
        self._recorder.note(job, JOBS, reason, message, source=SOURCE, warning=True)
        self._stop(job, census.active)

    def _too_long(self, job: Object, status: Object) -> bool:
        """Tell whether the deadline passed, and come back when it will."""
        limit, started = job["spec"].get("activeDeadlineSeconds"), status.get("startTime")
        if limit is None or not started or job["spec"].get("suspend"):
            return False
        left: float = limit - (self._core.clock() - parse(started)).total_seconds()
        if left <= 0:
            return True
        metadata = job["metadata"]
        self._core.agenda.later(
            ("job", metadata["uid"]), left, lambda: self._soon(metadata["namespace"], metadata["name"])
        )
        return False

    def _suspend(self, job: Object, status: Object, census: Census) -> None:
        if not holds({"status": status}, "Suspended"):
            now = self._core.stamp()
            status.pop("startTime", None)
            status |= with_condition(status, _condition("Suspended", "JobSuspended", "Job suspended", now))
            self._recorder.note(job, JOBS, "Suspended", "Job suspended", source=SOURCE)
        self._withdraw(job, census.active)

    def _run(self, job: Object, status: Object, census: Census) -> None:
        """Resume a suspended Job, then make the pods that are missing or stop those too many."""
        now = self._core.stamp()
        if holds({"status": status}, "Suspended"):
            resumed = {**_condition("Suspended", "JobResumed", "Job resumed", now), "status": "False"}
            status |= with_condition(status, resumed)
            self._recorder.note(job, JOBS, "Resumed", "Job resumed", source=SOURCE)
        if "startTime" not in status:
            status["startTime"] = now
            self._too_long(job, status)
        surplus = len(census.active) - job["spec"]["parallelism"]
        if surplus > 0:
            self._withdraw(job, sorted(census.active, key=lambda pod: index_of(pod) or 0)[-surplus:])
        elif not self._core.agenda.waits(("job retry", job["metadata"]["uid"])):
            self._make(job, missing(job, status, census))

    def _make(self, job: Object, wanted: list[int | None]) -> None:
        """Create missing pods; a refusal is told and tried again later."""
        metadata = job["metadata"]
        pods = [body for kind, body in self._core.store.owned(metadata["uid"]) if kind is PODS] if wanted else []
        for index in wanted:
            body = new_pod(job, index, failures_of(index, pods))
            try:
                pod = self._registry.create(PODS, metadata["namespace"], body)
            except ApiError as refusal:
                self._recorder.note(
                    job, JOBS, "FailedCreate", f"Error creating: {refusal.message}", source=SOURCE, warning=True
                )
                self._retry(job)
                return
            self._refusals.pop(metadata["uid"], None)
            self._recorder.note(job, JOBS, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", source=SOURCE)

    def _retry(self, job: Object) -> None:
        metadata = job["metadata"]
        tries = self._refusals.get(metadata["uid"], 0)
        self._refusals[metadata["uid"]] = tries + 1
        pause = min(2.0**tries, _LONGEST_PAUSE)
        self._core.agenda.later(
            ("job retry", metadata["uid"]), pause, lambda: self._soon(metadata["namespace"], metadata["name"])
        )

    def _withdraw(self, job: Object, pods: list[Object]) -> None:
        """Delete pods that are not wanted now: their ends do not count."""
        for pod in pods:
            self._release(pod)
        self._stop(job, pods)

    def _stop(self, job: Object, pods: list[Object]) -> None:
        for pod in pods:
            metadata = pod["metadata"]
            if self._core.store.find(PODS, metadata["namespace"], metadata["name"]):
                delete(self._core, PODS, metadata["namespace"], metadata["name"])
                self._recorder.note(job, JOBS, "SuccessfulDelete", f"Deleted pod: {metadata['name']}", source=SOURCE)

    def _conclude(self, job: Object, status: Object, census: Census) -> None:
        """Say that the Job is over once its last pod has ended."""
        if census.active or census.terminating or census.ended_well or census.ended_badly:
            return
        now = self._core.stamp()
        for target, final in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
            aim = condition({"status": status}, target)
            if aim is None:
                continue
            status |= with_condition(status, _condition(final, aim["reason"], aim["message"], now))
            if final == "Complete":
                status["completionTime"] = now
                self._recorder.note(job, JOBS, "Completed", "Job completed", source=SOURCE)

    def _release_all(self, uid: str) -> None:
        for kind, pod in self._core.store.owned(uid):
            if kind is PODS:
                self._release(pod)

    def _release_named(self, namespace: str, name: str) -> None:
        pod = self._core.store.get(PODS, namespace, name)
        if pod and not controller(pod, "Job"):
            self._release(pod)

    def _release(self, pod: Object) -> None:
        """Let a pod go that has been counted."""
        current = self._core.store.get(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        if current is None or TRACKING not in (current["metadata"].get("finalizers") or ()):
            return
        kept = [each for each in current["metadata"]["finalizers"] if each != TRACKING]
        metadata = {key: value for key, value in current["metadata"].items() if key != "finalizers"}
        self._registry.write(PODS, {**current, "metadata": {**metadata, "finalizers": kept} if kept else metadata})


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _succeeded(spec: Object, status: Object, census: Census) -> bool:
    """Tell whether enough pods ended well; without completions one is enough once none runs."""
    if "completions" in spec:
        wanted: int = spec["completions"]
        return bool(status.get("succeeded", 0) >= wanted)
    return bool(status.get("succeeded", 0)) and not census.active


def _tell(status: Object, census: Census) -> None:
    """Write the numbers of pods that live."""
    numbers = {"active": len(census.active), "terminating": len(census.terminating), "ready": census.ready}
    for key, number in numbers.items():
        if number or key != "active":
            status[key] = number
        else:
            status.pop(key, None)
    status["uncountedTerminatedPods"] = {}
