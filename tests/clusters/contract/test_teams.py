from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from uuid import uuid4

import pytest

from clusters import names
from clusters.kube import connect
from clusters.port import Launch, NameTaken
from tests.clusters.contract.ground import GPU, Ground
from tests.clusters.waiting import until


def test_a_teams_namespace_names_its_team(ground: Ground) -> None:
    made = ground.send("get", f"/api/v1/namespaces/{ground.namespace}")

    assert made["metadata"]["annotations"][names.ANNOTATION_TEAM] == "Night shift"
    assert made["metadata"]["labels"][names.LABEL_TEAM] == names.label_value("Night shift")


@pytest.mark.parametrize("ceiling", [{GPU: 4}, {GPU: 12}, {"nvidia.com/mig-1g.10gb": 7}, {}], ids=str)
def test_the_fence_follows_the_ceiling(ground: Ground, ceiling: dict[str, int]) -> None:
    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling={GPU: 8})

    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling=ceiling)

    assert _hard(ground) == {f"requests.{resource}": str(units) for resource, units in ceiling.items()}


def test_without_a_ceiling_there_is_no_fence(ground: Ground) -> None:
    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling={GPU: 8})

    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling=None)
    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling=None)

    assert not ground.exists(_fence(ground))


def test_a_fence_counts_what_runs(ground: Ground) -> None:
    node = ground.node()
    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling={GPU: 3})
    until(lambda: ground.send("get", _fence(ground)).get("status", {}).get("hard"))

    ground.cluster.launch(ground.launch(ground.group(node, steer={"forever": "1"}, units=2)))

    until(lambda: ground.send("get", _fence(ground))["status"].get("used") == {f"requests.{GPU}": "2"})


def test_a_namespace_that_somebody_made_before_is_used(ground: Ground) -> None:
    name = f"theirs-{ground.key}"
    ground.send(
        "create", "/api/v1/namespaces", body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )

    ground.cluster.ensure_team(name, team="Night shift", ceiling={GPU: 1})

    assert ground.exists(f"/api/v1/namespaces/{name}/resourcequotas/{names.FENCE}")
    ground.send("delete", f"/api/v1/namespaces/{name}")


def test_a_namespace_on_its_way_out_can_be_tried_again(ground: Ground) -> None:
    name = f"leaving-{ground.key}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    ground.send("create", "/api/v1/namespaces", body=body)
    keeper = {"metadata": {"name": "keeper", "finalizers": ["tidegate.test/stays"]}}
    maps = f"/api/v1/namespaces/{name}/configmaps"
    ground.send("create", maps, body={"apiVersion": "v1", "kind": "ConfigMap", **keeper})
    ground.send("delete", f"/api/v1/namespaces/{name}")

    with pytest.raises(NameTaken) as caught:
        ground.cluster.ensure_team(name, team="Night shift", ceiling={GPU: 1})

    assert caught.value.leaving
    ground.send("patch", f"{maps}/keeper", body={"metadata": {"finalizers": []}}, media="application/merge-patch+json")


def _fence(ground: Ground) -> str:
    return f"/api/v1/namespaces/{ground.namespace}/resourcequotas/{names.FENCE}"


def _hard(ground: Ground) -> dict[str, str]:
    hard: dict[str, str] = ground.send("get", _fence(ground))["spec"].get("hard") or {}
    return hard


def test_many_processes_that_come_to_a_new_team_at_once_make_one_of_each(ground: Ground) -> None:
    node, namespace = ground.node(), f"{ground.namespace}-new"
    plain = ground.launch(ground.group(node, steer={"forever": "1"}), gang=False, namespace=namespace)
    common = replace(plain, priority_class=f"race-{ground.key}", priority_value=7)
    launches = [replace(common, wave=str(uuid4()), job=str(uuid4())) for _ in range(4)]
    together = Barrier(len(launches))

    def come(launch: Launch) -> None:
        cluster = connect("another", kubeconfig=ground.site.kubeconfig)
        together.wait(30)
        cluster.ensure_team(namespace, team="New", ceiling={GPU: 8})
        cluster.launch(launch)
        cluster.close()

    with ThreadPoolExecutor(len(launches)) as processes:
        list(processes.map(come, launches))

    there = ground.cluster.inventory().waves
    ours = {launch.wave for launch in launches}
    mirrored = names.priority_class_name(common.priority_class, 7)
    found = ground.send("get", f"/apis/scheduling.k8s.io/v1/priorityclasses/{mirrored}")
    ground.send("delete", f"/api/v1/namespaces/{namespace}")
    assert sorted(seen.wave for seen in there if seen.wave in ours) == sorted(ours)
    assert (found["value"], found["preemptionPolicy"]) == (7, "Never")
