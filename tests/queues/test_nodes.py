from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.port import Taint
from queues.models import Node
from queues.nodes import flavor_of, repels
from tenants.models import Flavor
from tests.queues.cluster import RUNNING, SUCCEEDED, Cluster, machine, outsider
from tests.queues.lab import MINUTE, Lab

GPU_TAINT = Taint(key="gpu", value="yes")


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    Node.objects.all().delete()
    return Cluster(lab)


def node(name: str) -> Node:
    return Node.objects.get(name=name)


def test_new_nodes_become_rows_of_their_flavor(lab: Lab, cluster: Cluster) -> None:
    findings = cluster.look()

    assert list(Node.objects.order_by("id").values_list("name", "flavor__name", "units"))[3:5] == [
        ("h3", "h100", 8),
        ("l0", "l40s", 8),
    ]
    assert findings.nodes
    lab.h100.refresh_from_db()
    assert (lab.h100.installed, lab.h100.usable) == (32, 32)


def test_what_has_not_changed_is_not_written(cluster: Cluster) -> None:
    cluster.look()
    cluster.look()

    with CaptureQueriesContext(connection) as queries:
        findings = cluster.look()

    assert not [q["sql"] for q in queries if q["sql"].split()[0] in {"UPDATE", "INSERT"}]
    assert not findings.nodes


def test_cordoned_silent_and_tainted_nodes_stay_installed_and_are_not_usable(lab: Lab, cluster: Cluster) -> None:
    cluster.nodes["h0"] = machine("h0", cordoned=True)
    cluster.nodes["h1"] = machine("h1", ready=False)
    cluster.nodes["h2"] = machine("h2", taints=(GPU_TAINT,))

    cluster.look()

    lab.h100.refresh_from_db()
    assert (lab.h100.installed, lab.h100.usable) == (32, 8)
    assert [(node(n).cordoned, node(n).ready, node(n).tainted) for n in ("h0", "h1", "h2")] == [
        (True, True, False),
        (False, False, False),
        (False, True, True),
    ]


def test_a_taint_that_the_flavor_tolerates_does_not_matter(lab: Lab, cluster: Cluster) -> None:
    lab.h100.tolerations = [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    lab.h100.save()
    cluster.nodes["h0"] = machine("h0", taints=(GPU_TAINT,))

    cluster.look()

    assert node("h0").usable


def test_a_node_that_leaves_keeps_its_row_and_comes_back(cluster: Cluster) -> None:
    cluster.look()
    seen = cluster.nodes.pop("h0")

    cluster.look()
    gone, installed = node("h0").gone_at, Flavor.objects.get(name="h100").installed
    cluster.nodes["h0"] = seen
    cluster.look()

    assert (gone, installed) == (cluster.now, 24)
    assert node("h0").gone_at is None


def test_silence_is_counted_from_when_it_began(cluster: Cluster) -> None:
    cluster.look()
    began = cluster.now = cluster.now + MINUTE
    cluster.nodes["h0"] = machine("h0", ready=False)

    cluster.look()
    cluster.later(minutes=3)
    cluster.nodes["h0"] = machine("h0", ready=False, cordoned=True)
    cluster.look()

    assert node("h0").not_ready_since == began


def test_the_flavor_that_names_most_labels_gets_the_node(lab: Lab) -> None:
    special = replace_flavor(lab, gpu="h100", rack="r1")
    lab.h100.node_labels = {"gpu": "h100"}

    found = [
        flavor_of(machine("h0", labels=labels), [lab.h100, special])
        for labels in ({"gpu": "h100"}, {"gpu": "h100", "rack": "r1"}, {"gpu": "a100"})
    ]

    assert found == [lab.h100, special, None]


def test_of_equal_flavors_the_oldest_gets_the_node(lab: Lab) -> None:
    lab.h100.node_labels = lab.l40s.node_labels = {}

    assert flavor_of(machine("h0"), [lab.l40s, lab.h100]) == lab.h100


def test_a_node_without_the_counted_resource_is_of_no_flavor(lab: Lab) -> None:
    assert flavor_of(machine("h0", counted={}), [lab.h100]) is None


def test_a_cpu_flavor_counts_cores(lab: Lab, cluster: Cluster) -> None:
    lab.l40s.resource = "cpu"
    lab.l40s.save()
    cluster.pods["x"] = outsider("x", "l0", units=0)

    cluster.look()

    assert (node("l0").units, node("l0").outside_units) == (96, 2)


def test_pods_of_others_count_where_they_are_bound_and_have_not_ended(cluster: Cluster) -> None:
    cluster.pods = {
        "a": outsider("a", "h0", units=2),
        "b": outsider("b", "h0", units=1),
        "c": outsider("c", "h0", units=4, phase=SUCCEEDED),
        "d": outsider("d", None, units=4),
        "e": replace(outsider("e", "h1", units=3), leaving=True),
    }

    cluster.look()

    used = node("h0")
    assert (used.outside_units, used.outside_cpu_milli, used.outside_memory, used.outside_pods) == (3, 4000, 2**31, 2)
    assert node("h1").outside_units == 3


def test_our_pods_are_not_counted_twice(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    wave = lab.start(lab.submit(), node("h0"))
    cluster.run(wave, RUNNING)

    cluster.look()

    assert node("h0").outside_units == 0


def test_a_pod_of_ours_whose_task_holds_no_longer_counts_as_others(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    wave = lab.start(lab.submit(), node("h0"))
    wave.tasks.update(state="stopped", ended_at=cluster.now)
    cluster.run(wave, RUNNING)

    cluster.look()

    assert node("h0").outside_units == 1


@pytest.mark.parametrize(
    ("taint", "tolerations", "expected"),
    [
        (GPU_TAINT, [], True),
        (GPU_TAINT, [{"key": "gpu", "value": "yes"}], False),
        (GPU_TAINT, [{"key": "gpu", "value": "no"}], True),
        (GPU_TAINT, [{"key": "gpu", "operator": "Exists"}], False),
        (GPU_TAINT, [{"operator": "Exists"}], False),
        (GPU_TAINT, [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], True),
        (Taint(key="gpu", effect="PreferNoSchedule"), [], False),
        (Taint(key="node.kubernetes.io/unschedulable"), [], False),
        (Taint(key="node.kubernetes.io/disk-pressure"), [], True),
    ],
)
def test_taints_repel_what_does_not_tolerate_them(
    taint: Taint,
    tolerations: list[dict[str, str]],
    expected: bool,  # noqa: FBT001  a case of the table
) -> None:
    assert repels(taint, tolerations) is expected


def replace_flavor(lab: Lab, **labels: str) -> Flavor:
    return Flavor.objects.create(name="special", node_labels=labels, created_at=lab.h100.created_at + timedelta(1))
