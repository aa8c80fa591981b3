"""Machines that differ from what is expected: what is found, told and suggested."""

import pytest

from queues import inventory, queries
from queues.inventory import Drift, is_gpu, missing, name_for
from queues.models import Node
from queues.queries.numbers import numbers
from tenants.models import Flavor
from tests.queues.cluster import Cluster, machine
from tests.queues.lab import NOW, Lab
from tests.queues.test_views_pages import browser

GPU = "nvidia.com/gpu"
H200 = {"nvidia.com/gpu.product": "NVIDIA-H200"}


@pytest.mark.parametrize(
    "resource", [GPU, "amd.com/gpu", "nvidia.com/mig-1g.10gb", "google.com/tpu", "habana.ai/gaudi", "gpu.intel.com/xe"]
)
def test_accelerators_and_their_slices_are_gpus(resource: str) -> None:
    assert is_gpu(resource)


@pytest.mark.parametrize("resource", ["rdma/hca", "cpu", "memory", "example.com/disk", "nvidia.com/gpumon"])
def test_other_counted_resources_are_none(resource: str) -> None:
    assert not is_gpu(resource)


@pytest.mark.parametrize(
    ("counted", "capacity", "labels", "short"),
    [
        ({GPU: 8}, {GPU: 8}, {}, 0),
        ({GPU: 7}, {GPU: 8}, {}, 1),
        ({}, {GPU: 8}, {}, 8),
        ({GPU: 6}, {GPU: 6}, {"nvidia.com/gpu.count": "8"}, 2),
        ({}, {}, {"nvidia.com/gpu.count": "8"}, 8),
        ({GPU: 32}, {GPU: 32}, {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "4"}, 0),
        ({"nvidia.com/mig-1g.10gb": 56}, {}, {"nvidia.com/gpu.count": "8", "nvidia.com/mig.strategy": "mixed"}, 0),
        ({GPU: 8, "rdma/hca": 1}, {GPU: 8, "rdma/hca": 2}, {}, 0),
    ],
)
def test_what_is_missing_is_told_by_capacity_and_labels(
    counted: dict[str, int], capacity: dict[str, int], labels: dict[str, str], short: int
) -> None:
    assert missing(counted, capacity, labels) == short


def test_names_for_kinds_are_short_and_allowed() -> None:
    assert name_for("NVIDIA-H100-80GB-HBM3", GPU) == "h100-80gb-hbm3"
    assert name_for("Tesla-V100-SXM2-32GB", GPU) == "v100-sxm2-32gb"
    assert name_for("NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-1g.10gb") == "a100-sxm4-80gb-mig-1g-10gb"


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    return Cluster(lab)


def kinds(name: str) -> tuple[Drift, ...]:
    return inventory.drifts(Node.objects.get(name=name))


def test_a_list_finds_what_is_not_as_expected(lab: Lab, cluster: Cluster) -> None:
    Flavor.objects.create(name="twin", node_labels={"gpu": "l40s"}, created_at=NOW)
    cluster.nodes["h0"] = machine("h0", counted={GPU: 7})
    cluster.nodes["x0"] = machine("x0", labels=H200)
    cluster.nodes["c0"] = machine("c0", labels={}, counted={"rdma/hca": 2}, capacity={"rdma/hca": 2})

    cluster.look()

    assert kinds("h0") == (Drift.MISSING_UNITS,)
    assert kinds("x0") == (Drift.NO_FLAVOR,)
    assert kinds("l0") == (Drift.TWO_FLAVORS,)
    assert kinds("h1") == kinds("c0") == ()
    told = {row.node: row.text for row in queries.drift(lab.ann)}
    assert told["h0"] == "1 of its 8 GPUs are not offered: sick, or the plugin is down."
    assert told["x0"] == "It has 8 nvidia.com/gpu and matches no GPU type, so nothing runs there."
    assert told["l0"] == "2 GPU types match it equally well; it counts as l40s."
    assert numbers(now=NOW).drift == {
        ("default", "missing_units"): 1,
        ("default", "no_flavor"): 1,
        ("default", "two_flavors"): 2,
    }


def test_of_two_flavors_the_narrower_one_is_meant(lab: Lab, cluster: Cluster) -> None:
    Flavor.objects.create(name="any", created_at=NOW)

    cluster.look()

    assert kinds("h0") == ()
    assert Node.objects.get(name="h0").flavor == lab.h100


def test_a_node_that_differs_is_logged_once(lab: Lab, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.look()
    cluster.nodes["h0"] = machine("h0", counted={GPU: 7})

    cluster.look()
    cluster.nodes["h0"] = machine("h0", counted={GPU: 7}, cordoned=True)
    cluster.look()

    assert lab.h100.nodes.get(name="h0").short == 1
    assert [record.getMessage() for record in caplog.records if "h0" in record.getMessage()] == [
        "node h0 differs from what is expected: missing_units"
    ]


def test_a_missing_gpu_type_is_suggested_and_made_with_one_click(lab: Lab, cluster: Cluster) -> None:
    for number in range(3):
        cluster.nodes[f"x{number}"] = machine(f"x{number}", labels=H200)
    cluster.look()
    (found,) = queries.suggestions(lab.root)
    admin = browser(lab.root)

    page = admin.get("/nodes").content.decode()
    before = [row for row in queries.nodes(lab.root) if row.name == "x0"]
    refused = admin.post("/admin/flavors", {"name": "H 200", **dict(found.hidden)}, follow=True)
    answer = admin.post("/admin/flavors", {"name": found.name, **dict(found.hidden)})
    made = queries.suggestions(lab.root)
    cluster.look()

    assert (found.name, found.resource, found.nodes) == ("h200", GPU, 3)
    assert "<b>3 nodes</b> with <code>NVIDIA-H200</code>" in page
    assert [(row.units, row.free, row.usable) for row in before] == [(8, 0, False)]
    assert 'name="name" value="H 200"' in refused.content.decode()
    assert answer.status_code == 302
    # It is not offered again while its machines wait for the next list.
    assert made == ()
    assert Flavor.objects.get(name="h200").node_labels == H200
    assert Node.objects.filter(flavor__name="h200").count() == 3
    assert queries.suggestions(lab.root) == ()


def test_only_who_may_make_gpu_types_is_offered_to(lab: Lab, cluster: Cluster) -> None:
    cluster.nodes["x0"] = machine("x0", labels=H200)
    cluster.look()

    page = browser(lab.ann).get("/nodes").content.decode()
    answer = browser(lab.ann).post("/admin/flavors", {"name": "mine", "resource": GPU})

    assert "matches no GPU type" in page
    assert "Create GPU type" not in page
    assert answer.status_code == 302
    assert not Flavor.objects.filter(name="mine").exists()


def test_administrators_see_it_on_the_first_page_and_everybody_at_the_node(lab: Lab, cluster: Cluster) -> None:
    cluster.nodes["h0"] = machine("h0", counted={GPU: 7})
    cluster.look()

    assert [row.node for row in queries.overview(lab.root, now=NOW).attention if row.kind == "drift"] == ["h0"]
    assert not [row for row in queries.overview(lab.ann, now=NOW).attention if row.kind == "drift"]
    assert "1 of its 8 GPUs are not offered" in browser(lab.ann).get("/nodes/default/h0").content.decode()
