"""The official Python client against the emulator: what it sends and reads is understood by both."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes import watch as client_watch
from kubernetes.client.exceptions import ApiException

from clusters.emulator import Emulator
from tests.clusters.emulator_kit import GPU, Talk, job, until

# The client's own types are half optional, half missing: what is asked here is only what passes over the wire.
loading: Any = config
watch: Any = client_watch


@pytest.fixture
def api(emulator: Emulator, tmp_path: Path) -> Iterator[client.ApiClient]:
    with loading.new_client_from_config(str(emulator.kubeconfig(tmp_path / "kubeconfig"))) as opened:
        yield opened


def test_nodes_and_version_are_read(api: client.ApiClient) -> None:
    core: Any = client.CoreV1Api(api)

    nodes = core.list_node().items

    assert client.VersionApi(api).get_code().git_version.startswith("v1.")
    assert {node.metadata.name: node.status.allocatable[GPU] for node in nodes} == {
        "big-0": "8",
        "big-1": "8",
        "small-0": "4",
        "small-1": "4",
    }


def test_a_gang_goes_from_gate_to_end(api: client.ApiClient, talk: Talk) -> None:
    core: Any = client.CoreV1Api(api)
    batch: Any = client.BatchV1Api(api)
    body = job("gang", n=2, gpus=8, inner={"schedulingGates": [{"name": "tidegate.io/plan"}]})
    batch.create_namespaced_job(talk.namespace, body)
    pods = until(lambda: found if len(found := core.list_namespaced_pod(talk.namespace).items) == 2 else None)

    for pod, node in zip(pods, ("big-0", "big-1"), strict=True):
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        gate = {"name": "tidegate.io/plan", "$patch": "delete"}
        patch = {"spec": {"affinity": {"nodeAffinity": required}, "schedulingGates": [gate]}}
        core.patch_namespaced_pod(pod.metadata.name, talk.namespace, patch)

    def over() -> bool:
        status = batch.read_namespaced_job("gang", talk.namespace).status
        return bool(status.completion_time)

    until(over)
    ended = core.list_namespaced_pod(talk.namespace, label_selector="batch.kubernetes.io/job-name=gang").items
    assert [pod.spec.node_name for pod in ended] == ["big-0", "big-1"]
    assert {pod.status.container_statuses[0].state.terminated.exit_code for pod in ended} == {0}


def test_a_watch_is_told_of_a_jobs_life(api: client.ApiClient, talk: Talk) -> None:
    batch: Any = client.BatchV1Api(api)
    position = batch.list_namespaced_job(talk.namespace).metadata.resource_version
    seen: list[str] = []

    def follow() -> None:
        stream = watch.Watch().stream(
            batch.list_namespaced_job,
            talk.namespace,
            resource_version=position,
            timeout_seconds=60,
            allow_watch_bookmarks=True,
        )
        for event in stream:
            seen.append(event["type"])
            if event["type"] == "DELETED":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    batch.create_namespaced_job(talk.namespace, job("j", suspend=True))
    batch.delete_namespaced_job("j", talk.namespace, propagation_policy="Background")
    follower.join(60)

    assert (seen[0], seen[-1]) == ("ADDED", "DELETED")


def test_refusals_arrive_as_status_codes(api: client.ApiClient, talk: Talk) -> None:
    batch: Any = client.BatchV1Api(api)
    batch.create_namespaced_job(talk.namespace, job("j", suspend=True))

    with pytest.raises(ApiException) as taken:
        batch.create_namespaced_job(talk.namespace, job("j"))
    with pytest.raises(ApiException) as absent:
        batch.read_namespaced_job("absent", talk.namespace)
    with pytest.raises(ApiException) as wrong:
        batch.create_namespaced_job(talk.namespace, job("Bad"))

    assert (taken.value.status, absent.value.status, wrong.value.status) == (409, 404, 422)


def test_an_old_position_is_410_for_the_client(api: client.ApiClient, talk: Talk) -> None:
    core: Any = client.CoreV1Api(api)
    position = core.list_namespaced_config_map(talk.namespace).metadata.resource_version
    talk.make(talk.maps, {"metadata": {"name": "map"}})
    talk.emulator.compact()

    with pytest.raises(ApiException) as gone:
        list(
            watch.Watch().stream(
                core.list_namespaced_config_map, talk.namespace, resource_version=position, timeout_seconds=60
            )
        )

    assert gone.value.status == 410


def test_logs_and_events_are_read(api: client.ApiClient, talk: Talk) -> None:
    core: Any = client.CoreV1Api(api)
    talk.make(talk.jobs, job("j", gpus=0))
    talk.job_over("j")
    name = talk.pods_of("j")[0]["metadata"]["name"]

    log = core.read_namespaced_pod_log(name, talk.namespace, tail_lines=1)
    events = core.list_namespaced_event(talk.namespace, field_selector=f"involvedObject.name={name}").items

    assert log == "end exit code 0\n"
    assert {event.reason for event in events} >= {"Scheduled", "Started"}


def test_collections_and_evictions_work(api: client.ApiClient, talk: Talk) -> None:
    core: Any = client.CoreV1Api(api)
    talk.make(talk.jobs, job("j", n=2, gpus=0, wishes={"forever": "1"}, backoffLimit=9))
    first, second = talk.running("j", 2)
    metadata = client.V1ObjectMeta(name=first["metadata"]["name"], namespace=talk.namespace)

    core.create_namespaced_pod_eviction(first["metadata"]["name"], talk.namespace, client.V1Eviction(metadata=metadata))
    until(lambda: talk.gone(f"{talk.pods}/{first['metadata']['name']}"))
    core.delete_collection_namespaced_pod(talk.namespace, label_selector="job-name=j")

    until(lambda: talk.gone(f"{talk.pods}/{second['metadata']['name']}"))
