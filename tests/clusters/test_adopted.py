"""Letting an adopted Job run, where the API server will not have its template changed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from clusters import kinds
from clusters.port import NameTaken, RawObject, Refused
from clusters.verbs import KubeCluster
from tests.clusters.faulty import Faulty, answer, failure
from tests.clusters.test_kube import CLASSES, OURS, launch
from tests.queues import manifests

IMMUTABLE = failure(422, "spec.template: field is immutable", reason="Invalid")


def asked(cluster: KubeCluster, server: Faulty, status: dict[str, Any]) -> None:
    """Let a Job that has this status run, which is refused."""
    manifest = manifests.job("made", suspend=True)
    there = {**manifest, "metadata": {"name": "made", "uid": "u", "labels": {}, "namespace": "n"}, "status": status}
    server.tell("POST", CLASSES, answer({}))
    server.tell("GET", f"{OURS}/made", answer(there))
    server.tell("PUT", f"{OURS}/made", IMMUTABLE)
    cluster.launch(replace(launch(), raw=RawObject(kind=kinds.JOB.key, manifest=manifest, adopted="u")))


def test_a_job_whose_last_pods_are_still_counted_is_tried_again(cluster: KubeCluster, server: Faulty) -> None:
    with pytest.raises(NameTaken, match="still counts pods") as caught:
        asked(cluster, server, {"active": 2, "startTime": "2026-01-01T00:00:00Z"})

    assert caught.value.leaving
    assert not [request for request in server.requests if request.method == "PATCH"]


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_a_job_that_has_ended_while_it_waited_is_not_let_run(cluster: KubeCluster, server: Faulty, end: str) -> None:
    with pytest.raises(NameTaken, match="has ended") as caught:
        asked(cluster, server, {"conditions": [{"type": end, "status": "True"}]})

    assert caught.value.leaving
    assert {request.method for request in server.requests} == {"GET", "POST"}


def test_a_job_that_has_started_before_has_its_start_taken_back_and_is_tried_again(
    cluster: KubeCluster, server: Faulty
) -> None:
    server.tell("PATCH", f"{OURS}/made/status", answer({}))

    with pytest.raises(NameTaken, match="ready to start again") as caught:
        asked(cluster, server, {"startTime": "2026-01-01T00:00:00Z"})

    (patch,) = (request for request in server.requests if request.method == "PATCH")
    assert caught.value.leaving
    assert json.loads(patch.body) == {"status": {"startTime": None}}


def test_a_job_whose_start_cannot_be_taken_back_says_what_to_do(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("PATCH", f"{OURS}/made/status", failure(422, "status.startTime: field is immutable", reason="Invalid"))

    with pytest.raises(Refused, match="make the Job anew") as caught:
        asked(cluster, server, {"startTime": "2026-01-01T00:00:00Z"})

    assert "spec.template: field is immutable" in str(caught.value)


def test_a_job_that_never_started_is_refused_in_the_servers_words(cluster: KubeCluster, server: Faulty) -> None:
    with pytest.raises(Refused, match="field is immutable"):
        asked(cluster, server, {})


@pytest.mark.parametrize(
    ("status", "begun"),
    [
        ({}, False),
        ({"ready": 1, "active": 2}, False),
        ({"ready": 2, "succeeded": 1}, True),
        # Of five one is left, which is there or is not.
        ({"ready": 0, "active": 1, "succeeded": 4}, False),
        ({"ready": 1, "succeeded": 4}, True),
    ],
)
def test_a_job_has_begun_when_it_has_all_pods_that_it_still_wants_at_once(
    status: dict[str, int], *, begun: bool
) -> None:
    manifest = manifests.job(pods=2, completions=5, suspend=False)

    assert kinds.has_begun(kinds.JOB, {**manifest, "status": status}) is begun
    assert not kinds.has_begun(kinds.JOB, {**manifest, "spec": {**manifest["spec"], "suspend": True}, "status": status})


@pytest.mark.parametrize(
    ("lead", "work", "begun"),
    [
        ({"succeeded": 1}, {"ready": 3}, True),
        ({"succeeded": 1}, {"ready": 1, "succeeded": 2}, True),
        ({"succeeded": 1}, {"ready": 2}, False),
        (None, {"ready": 3}, False),
    ],
)
def test_a_job_set_has_begun_when_all_its_jobs_are_ready_or_have_succeeded(
    lead: dict[str, int] | None, work: dict[str, int], *, begun: bool
) -> None:
    manifest = manifests.job_set(parts={"lead": (1, 1, 1), "work": (3, 4, 1)})
    counts = [{"name": name, **each} for name, each in (("work", work), ("lead", lead)) if each is not None]

    assert kinds.has_begun(kinds.JOB_SET, {**manifest, "status": {"replicatedJobsStatus": counts}}) is begun
