from datetime import UTC, datetime
from typing import Any

import pytest

from clusters import sightings
from clusters.port import PodPhase, Taint


def pod(*, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {
        "metadata": {"namespace": "n", "name": "p", "uid": "u", **meta},
        "spec": spec or {"containers": []},
        "status": status or {},
    }


def asking(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": {name.replace("_", "/"): amount for name, amount in requests.items()}}}


def ended(code: int, *, reason: str = "Error", at: str = "2026-01-01T10:00:00Z") -> dict[str, Any]:
    return {
        "state": {
            "terminated": {"exitCode": code, "reason": reason, "startedAt": "2026-01-01T09:00:00Z", "finishedAt": at}
        }
    }


def test_containers_add_up() -> None:
    seen = sightings.pod(
        pod(spec={"containers": [asking(cpu="1", gpu_x="2"), asking(cpu="500m", memory="1Ki", gpu_x="1")]})
    )

    assert (seen.cpu, seen.memory, dict(seen.counted)) == (1500, 1024, {"gpu/x": 3})


def test_an_init_container_counts_where_it_alone_needs_more() -> None:
    spec = {"containers": [asking(cpu="1", memory="4Ki")], "initContainers": [asking(cpu="3"), asking(memory="1Ki")]}

    seen = sightings.pod(pod(spec=spec))

    assert (seen.cpu, seen.memory) == (3000, 4096)


def test_a_sidecar_counts_beside_what_follows_it() -> None:
    sidecar = {**asking(cpu="1"), "restartPolicy": "Always"}
    spec = {"containers": [asking(cpu="2")], "initContainers": [asking(cpu="2500m"), sidecar, asking(cpu="4")]}

    assert sightings.pod(pod(spec=spec)).cpu == 5000
    assert sightings.pod(pod(spec={**spec, "initContainers": [sidecar]})).cpu == 3000


def test_limits_count_where_requests_are_missing_and_overhead_is_added() -> None:
    container = {"resources": {"limits": {"gpu/x": "4", "cpu": "2"}, "requests": {"cpu": "1"}}}

    seen = sightings.pod(pod(spec={"containers": [container], "overhead": {"cpu": "250m"}}))

    assert (seen.cpu, dict(seen.counted)) == (1250, {"gpu/x": 4})


def test_what_the_pod_asks_as_a_whole_replaces_the_sum() -> None:
    spec = {"containers": [asking(cpu="1", gpu_x="1")], **asking(cpu="6")}

    seen = sightings.pod(pod(spec=spec))

    assert (seen.cpu, dict(seen.counted)) == (6000, {"gpu/x": 1})


def test_our_pods_carry_wave_group_and_index() -> None:
    labels = {"tidegate.io/wave": "w", "tidegate.io/group": "3"}
    annotations = {"batch.kubernetes.io/job-completion-index": "17"}

    seen = sightings.pod(pod(labels=labels, annotations=annotations))

    assert (seen.wave, seen.group, seen.index) == ("w", 3, 17)


def test_a_pod_that_the_api_server_has_just_taken_in_is_pending() -> None:
    seen = sightings.pod(pod(labels=None, annotations=None))

    assert (seen.phase, seen.node, seen.leaving, seen.gated) == (PodPhase.PENDING, None, False, False)
    assert (seen.wave, seen.index, seen.started_at, seen.exit_code) == (None, None, None, None)


def test_only_our_gate_makes_a_pod_gated() -> None:
    ours = pod(spec={"containers": [], "schedulingGates": [{"name": "tidegate.io/placement"}]})
    theirs = pod(spec={"containers": [], "schedulingGates": [{"name": "example.com/other"}]})

    assert sightings.pod(ours).gated
    assert not sightings.pod(theirs).gated


def test_times_run_from_the_first_start_to_the_last_end() -> None:
    status = {"containerStatuses": [ended(0, at="2026-01-01T10:00:00Z"), ended(0, at="2026-01-01T11:00:00Z")]}

    seen = sightings.pod(pod(status=status))

    assert seen.started_at == datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert seen.ended_at == datetime(2026, 1, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("containers", "code"),
    [
        ([], None),
        ([ended(0)], 0),
        ([ended(0), ended(137)], 137),
        ([ended(0), {"state": {"running": {"startedAt": "2026-01-01T09:00:00Z"}}}], None),
        ([ended(2), {"state": {"running": {"startedAt": "2026-01-01T09:00:00Z"}}}], 2),
    ],
    ids=["none", "well", "one badly", "one still runs", "one badly, one runs"],
)
def test_the_exit_code_is_the_first_that_is_not_0(containers: list[dict[str, Any]], code: int | None) -> None:
    assert sightings.pod(pod(status={"containerStatuses": containers})).exit_code == code


def test_a_waiting_container_says_why() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}

    seen = sightings.pod(pod(status={"containerStatuses": [waiting]}))

    assert (seen.waiting_reason, seen.message) == ("ErrImagePull", "no such image")


def test_a_pod_without_a_node_says_what_the_scheduler_says() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}

    seen = sightings.pod(pod(status={"conditions": [condition]}))

    assert (seen.waiting_reason, seen.message) == ("Unschedulable", "0/3 nodes")


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ({"containerStatuses": [ended(137, reason="OOMKilled")]}, "OOMKilled", ""),
        ({"reason": "Evicted", "message": "disk", "containerStatuses": [ended(1)]}, "Evicted", "disk"),
        (
            {
                "reason": "NodeLost",
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "DeletionByTaintManager",
                        "message": "taint",
                    }
                ],
            },
            "DeletionByTaintManager",
            "taint",
        ),
        ({"containerStatuses": [ended(0, reason="Completed")]}, "", ""),
    ],
    ids=["container", "kubelet", "disruption", "well"],
)
def test_the_outermost_cause_of_an_end_is_named(status: dict[str, Any], reason: str, message: str) -> None:
    seen = sightings.pod(pod(status=status))

    assert (seen.end_reason, seen.message) == (reason, message)


def test_a_node_without_a_status_is_not_ready_and_empty() -> None:
    seen = sightings.node({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})

    assert (seen.ready, seen.cordoned, seen.cpu, seen.memory, seen.pods) == (False, False, 0, 0, 0)
    assert seen.taints == (Taint(key="k", value="", effect="NoExecute"),)


def test_a_failed_wave_says_why() -> None:
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    labels = {"tidegate.io/wave": "w", "tidegate.io/group": "1"}
    meta = {"namespace": "n", "name": "j", "uid": "u", "labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"}

    seen = sightings.wave({"metadata": meta, "status": {"conditions": [condition]}})

    assert (seen.failed, seen.complete, seen.leaving, seen.group) == (True, False, True, 1)
    assert seen.message == "BackoffLimitExceeded: too often"


@pytest.mark.parametrize(
    ("status", "lacks"),
    [
        ({}, True),
        ({"active": 1}, True),
        ({"active": 1, "succeeded": 1}, False),
        ({"failed": 2}, False),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, False),
    ],
)
def test_a_job_lacks_pods_until_all_were_made(status: dict[str, Any], *, lacks: bool) -> None:
    assert sightings.lacks_pods({"metadata": {}, "spec": {"completions": 2}, "status": status}) is lacks


@pytest.mark.parametrize(("active", "lacks"), [(1, True), (2, False)])
def test_a_job_with_more_completions_than_pods_lacks_none_while_as_many_run_as_may(active: int, *, lacks: bool) -> None:
    job = {"metadata": {}, "spec": {"completions": 9, "parallelism": 2}, "status": {"active": active, "succeeded": 3}}

    assert sightings.lacks_pods(job) is lacks


def test_the_newest_refusal_counts() -> None:
    events = [
        {"involvedObject": {"uid": "a"}, "lastTimestamp": "2026-01-01T00:00:02Z", "message": "newer"},
        {"involvedObject": {"uid": "a"}, "lastTimestamp": "2026-01-01T00:00:01Z", "message": "older"},
        {"involvedObject": {"uid": "b"}, "eventTime": "2026-01-01T00:00:01Z", "message": "other"},
    ]

    assert sightings.refusals(events) == {"a": "newer", "b": "other"}


def made(uid: str, by: str = "", *, wave: bool = False) -> dict[str, Any]:
    owners = [{"uid": by, "controller": True}] if by else []
    labels = {"tidegate.io/wave": "w"} if wave else {}
    return {"metadata": {"uid": uid, "labels": labels, "ownerReferences": owners}, "spec": {"parallelism": 1}}


def test_a_job_that_lacks_pods_lacks_them_for_the_object_that_had_it_made_and_a_circle_of_owners_has_an_end() -> None:
    jobs = [made("own", wave=True), made("child", by="set"), made("turned", by="one")]
    makers = [made("set", by="train"), made("train", wave=True), made("one", by="two"), made("two", by="one")]

    assert sightings.lacking(jobs, makers) == {"own": "own", "child": "train"}
