"""What a node's page says: what is on it and for whom it is kept, why it is not usable, and where counts differ."""

from dataclasses import replace
from datetime import timedelta

import pytest

from clusters.port import Change, DevicesSeen, Taint
from queues import inventory, queries
from queues.inventory import Drift
from queues.models import Claim, Hold, Node
from queues.queries.numbers import numbers
from queues.queries.rows.machines import NodeDetail
from queues.reconcile import follow
from queues.states import TaskState
from tenants.models import AuditEntry, Flavor
from tenants.permissions import Actor
from tests.queues.cluster import RUNNING, Cluster, machine, outsider
from tests.queues.lab import MINUTE, NOW, Lab
from tests.queues.test_views_pages import browser

GPU = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    return Cluster(lab)


def detail(by: Actor, name: str = "h0") -> NodeDetail:
    return queries.node(by, name)


def drifts(name: str = "h0") -> tuple[Drift, ...]:
    return inventory.drifts(Node.objects.get(name=name))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "All 8 GPUs are free."),
        ({"ready": False}, "Kubernetes says that it is not ready since 2026-11-29 08:01 UTC."),
        (
            {"cordoned": True},
            "It is cordoned since 2026-11-29 08:01 UTC.",
        ),
        (
            {"taints": (Taint(key="x", value="y"), Taint(key="node.kubernetes.io/unschedulable"))},
            "It has a taint that its GPU type does not tolerate: x=y:NoSchedule.",
        ),
        ({"counted": {GPU: 7}}, "1 of its 8 GPUs are not offered: sick, or the plugin is down."),
        (
            {"labels": {}},
            "It has 8 nvidia.com/gpu and matches no GPU type, so nothing runs there.",
        ),
        (
            {"conditions": ("DiskPressure",)},
            "Kubernetes says DiskPressure, and it takes new work all the same.",
        ),
    ],
)
def test_one_sentence_says_why_a_node_is_not_usable(
    lab: Lab, cluster: Cluster, changes: dict[str, object], expected: str
) -> None:
    cluster.now = NOW.replace(hour=8, minute=1)
    cluster.nodes["h0"] = machine("h0", **changes)
    cluster.look()

    text = browser(lab.ann).get("/nodes/default/h0").content.decode()

    assert detail(lab.ann).summary == expected
    assert expected in text


def test_a_cordoned_node_says_so_once(lab: Lab, cluster: Cluster) -> None:
    cluster.nodes["h0"] = machine(
        "h0", cordoned=True, taints=(Taint(key="node.kubernetes.io/unschedulable"), Taint(key="x", value="y"))
    )
    cluster.look()

    text = browser(lab.ann).get("/nodes/default/h0").content.decode()

    assert text.count("It is cordoned since") == 1
    assert text.count("New work goes elsewhere") == 1
    assert "node.kubernetes.io/unschedulable" not in text
    assert "x=y:NoSchedule" in text
    assert set(detail(lab.ann).taints) == {"node.kubernetes.io/unschedulable:NoSchedule", "x=y:NoSchedule"}


def test_cards_that_claims_of_dra_hold_are_used_outside_where_a_plugin_counts_them(lab: Lab, cluster: Cluster) -> None:
    cluster.devices = {"h0": {"gpu.nvidia.com": 8, "dra.net": 2}}
    cluster.claimed = {"h0": {"gpu.nvidia.com": 3, "dra.net": 1}}

    cluster.look()

    assert detail(lab.ann).row.outside == 3
    assert detail(lab.ann).row.free == 5


def test_it_tells_what_is_in_use_outside_and_kept(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    wave = lab.start(lab.submit(gpus="h100:2"), Node.objects.get(name="h0"))
    cluster.run(wave, RUNNING)
    cluster.pods["x"] = outsider("x", "h0", units=1)
    cluster.look()
    waits = lab.submit(name="waits", gpus="h100:4")
    keep(waits, Node.objects.get(name="h0"), hold=True)

    found = detail(lab.ann)

    assert found.summary == "1 of 8 GPUs is free: 2 in use, 1 used outside Tidegate, 4 kept for waiting jobs."


def keep(job: object, node: Node, *, hold: bool) -> None:
    """Promise a node's units to a waiting job of one task."""
    of = {"job": job, "standing": "guaranteed", "flavors": [node.flavor_id], "placed": [[0, node.id, 1]], "units": 4}
    if hold:
        Hold.objects.create(rank=1, since=NOW, starts_at=NOW + 5 * MINUTE, **of)
    else:
        Claim.objects.create(id=1, decided_at=NOW, **of)


def test_units_kept_for_others_are_told_without_names(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    node = Node.objects.get(name="h0")
    mine, theirs = lab.submit(name="mine", gpus="h100:4"), lab.submit(lab.carl, team="cv", name="secret", gpus="h100:4")
    keep(mine, node, hold=True)
    keep(theirs, node, hold=False)

    found = detail(lab.ann).kept

    assert [(each.units, each.kind, each.job_name, each.team) for each in found] == [
        (4, "reserved", "", ""),
        (4, "held", "mine", "nlp"),
    ]
    assert found[1].starts_at == NOW + 5 * MINUTE
    assert "secret" not in browser(lab.ann).get("/nodes/default/h0").content.decode()
    assert "secret" in browser(lab.root).get("/nodes/default/h0").content.decode()
    assert detail(lab.ann, "h1").kept == ()


def test_pods_of_others_are_named_to_those_who_run_the_place(lab: Lab, cluster: Cluster) -> None:
    asked = NOW - timedelta(minutes=3)
    cluster.pods = {
        "small": outsider("small", "h0", units=1),
        "large": replace(outsider("large", "h0", units=3), leaving=True, leaving_since=asked),
    }
    cluster.look()

    told, hidden = detail(lab.root), detail(lab.ann)

    assert [(pod.namespace, pod.name, pod.units, pod.leaving_since) for pod in told.others] == [
        ("others", "large", 3, asked),
        ("others", "small", 1, None),
    ]
    assert (hidden.others, hidden.outside_pods, hidden.others_leaving, hidden.row.outside) == ((), 2, 1, 4)
    assert "others/large" in browser(lab.root).get("/nodes/default/h0").content.decode()
    assert "others/large" not in browser(lab.ann).get("/nodes/default/h0").content.decode()
    assert browser(lab.ann).get("/api/v1/nodes/h0").json()["others"] == []


def test_a_task_that_leaves_says_since_when(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    wave = lab.start(lab.submit(), Node.objects.get(name="h0"))
    wave.tasks.update(state=TaskState.LEAVING)
    type(wave).objects.filter(id=wave.id).update(stopped_at=NOW + MINUTE)

    (cell,) = detail(lab.ann).row.cells

    assert (cell.state, cell.leaving_since) == ("leaving", NOW + MINUTE)


def test_a_cordon_is_counted_from_when_it_was_first_seen(cluster: Cluster) -> None:
    began = cluster.now
    cluster.nodes["h0"] = machine("h0", cordoned=True)
    cluster.look()
    cluster.later(minutes=3)
    cluster.nodes["h0"] = machine("h0", cordoned=True, conditions=("DiskPressure",))
    cluster.look()

    assert Node.objects.get(name="h0").cordoned_since == began
    cluster.nodes["h0"] = machine("h0")
    cluster.look()
    assert Node.objects.get(name="h0").cordoned_since is None


def test_devices_that_only_dra_announces_are_shown_and_never_free(lab: Lab, cluster: Cluster) -> None:
    labels = {"nvidia.com/gpu.count": "4"}
    cluster.nodes["x0"] = machine("x0", labels=labels, counted={}, capacity={})
    cluster.nodes["c0"] = machine("c0", labels={}, counted={}, capacity={})
    cluster.devices = {"x0": {DRIVER: 4, "dra.net": 2}, "h0": {DRIVER: 8}, "c0": {"dra.net": 2}}
    cluster.look()

    found = detail(lab.ann, "x0")

    # What a plugin counts as well is the same cards; network cards are no GPUs.
    assert (drifts("x0"), drifts("h0"), drifts("c0")) == ((Drift.DRA_DEVICES,), (), ())
    assert found.summary == (
        "4 GPUs on it are announced by DRA alone, and no device class that Tidegate can read selects them, "
        "so nothing runs there."
    )
    assert found.devices == {DRIVER: 4, "dra.net": 2}
    assert (found.row.units, found.row.free) == (0, 0)
    assert numbers(now=NOW).drift == {("default", "dra_devices"): 1}
    assert [row.node for row in queries.drift(lab.ann)] == ["x0"]


def test_devices_of_a_class_are_the_units_of_the_gpu_type_that_names_it(lab: Lab, cluster: Cluster) -> None:
    resource = f"deviceclass.resource.kubernetes.io/{DRIVER}"
    flavor = Flavor.objects.create(name="by-class", resource=resource, node_labels={"gpu": "x"}, created_at=NOW)
    for name in ("x0", "x1"):
        cluster.nodes[name] = machine(name, labels={"gpu": "x"}, counted={}, capacity={})
    cluster.devices = {"x0": {DRIVER: 4}, "x1": {DRIVER: 4}, "h0": {DRIVER: 8}}
    cluster.offered = {"x0": {resource: 4}, "x1": {resource: 3}, "h0": {resource: 8}}
    # What a class of another name holds of the same cards is no matter of this one.
    cluster.taken = {"x0": {resource: 1, "deviceclass.resource.kubernetes.io/another": 2}}
    cluster.claimed = {"x0": {DRIVER: 3}}
    cluster.look()

    found = detail(lab.ann, "x0")

    flavor.refresh_from_db()
    assert (flavor.installed, flavor.usable) == (7, 7)
    assert (found.row.flavor, found.row.units, found.row.outside, found.row.free) == ("by-class", 4, 1, 3)
    assert found.counted == {resource: 4}
    # Where a plugin counts the same cards it alone does.
    assert detail(lab.ann, "h0").counted == {"nvidia.com/gpu": 8}
    assert (drifts("x0"), drifts("x1"), drifts("h0")) == ((), (), ())


def test_cards_that_the_watch_tells_of_count_without_another_list(lab: Lab, cluster: Cluster) -> None:
    resource = f"deviceclass.resource.kubernetes.io/{DRIVER}"
    flavor = Flavor.objects.create(name="by-class", resource=resource, node_labels={"gpu": "x"}, created_at=NOW)
    cluster.nodes["x0"] = machine("x0", labels={"gpu": "x"}, counted={}, capacity={})
    cluster.devices, cluster.offered = {"x0": {DRIVER: 1}}, {"x0": {resource: 1}}
    cluster.look()
    view = cluster.view()

    seen = DevicesSeen(
        devices={"x0": {DRIVER: 4}, "unknown": {DRIVER: 8}},
        claimed={"x0": {DRIVER: 1}},
        offered={"x0": {resource: 4}},
        taken={"x0": {resource: 1}},
    )
    view.take(Change(seen=seen))
    touched = set(view.machines)
    follow(lab.cluster.id, view, now=cluster.now)

    found = detail(lab.ann, "x0")
    flavor.refresh_from_db()
    assert touched == {"x0"}
    assert flavor.installed == 4
    assert (found.row.units, found.row.outside, found.row.free) == (4, 1, 3)
    assert found.devices == {DRIVER: 4}


def test_a_class_of_any_name_counts_once_a_gpu_type_names_it(lab: Lab, cluster: Cluster) -> None:
    resource = "deviceclass.resource.kubernetes.io/big-ones"
    cluster.nodes["x0"] = machine("x0", labels={"gpu": "x"}, counted={}, capacity={})
    cluster.devices = {"x0": {DRIVER: 4}}
    cluster.offered = {"x0": {resource: 4}}
    cluster.look()
    before = drifts("x0")

    Flavor.objects.create(name="big", resource=resource, node_labels={"gpu": "x"}, created_at=NOW)
    cluster.look()

    assert (before, drifts("x0")) == ((Drift.DRA_DEVICES,), ())
    assert detail(lab.ann, "x0").row.units == 4


def test_more_in_use_than_there_is_is_told(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    wave = lab.start(lab.submit(gpus="h100:6"), Node.objects.get(name="h0"))
    cluster.run(wave, RUNNING)
    cluster.pods["x"] = outsider("x", "h0", units=3)

    cluster.look()

    assert drifts() == (Drift.OVER_USED,)
    assert detail(lab.ann).drift == ("9 GPUs are in use there, and it has 8.",)
    assert numbers(now=NOW).drift == {("default", "over_used"): 1}
    assert [row.node for row in queries.overview(lab.root, now=NOW).attention if row.kind == "drift"] == ["h0"]


def test_pods_that_use_something_else_than_their_rows_say_are_told_with_their_wave(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    wave = lab.start(lab.submit(gpus="h100:2"), Node.objects.get(name="h0"))
    cluster.run(wave, RUNNING, counted={GPU: 3})

    cluster.look()

    assert drifts() == (Drift.RECOUNT,)
    assert detail(lab.ann).drift == (f"Wave {str(wave.uid)[:8]}: its pods use 3 GPUs there, our rows say 2 (1 more).",)
    cluster.run(wave, RUNNING)
    cluster.look()
    assert drifts() == ()


def test_a_pod_of_ours_that_no_row_holds_is_told_unless_it_leaves(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    wave = lab.start(lab.submit(gpus="h100:2"), Node.objects.get(name="h0"))
    wave.tasks.update(state="stopped", ended_at=cluster.now)
    cluster.run(wave, RUNNING, leaving=True)
    cluster.look()
    leaving = drifts()
    cluster.run(wave, RUNNING)

    cluster.look()

    assert (leaving, drifts()) == ((), (Drift.RECOUNT,))
    assert Node.objects.get(name="h0").recount == [[str(wave.uid), 0, 2]]


def test_drift_that_comes_and_goes_is_kept_in_the_audit(lab: Lab, cluster: Cluster) -> None:
    cluster.look()
    cluster.nodes["h0"] = machine("h0", counted={GPU: 7})
    cluster.look()
    cluster.nodes["h0"] = machine("h0", counted={GPU: 7}, cordoned=True)
    cluster.look()
    cluster.nodes["h0"] = machine("h0")
    cluster.look()

    found = AuditEntry.objects.filter(action="node.drift", target="node h0").order_by("id")

    assert list(found.values_list("actor_name", "before", "after")) == [
        ("Tidegate", {"drift": []}, {"drift": ["missing_units"], "short": 1}),
        ("Tidegate", {"drift": ["missing_units"]}, {"drift": []}),
    ]
    assert browser(lab.root).get("/api/v1/audit").json()["items"][0]["action"] == "node.drift"


def test_a_failure_without_retries_is_no_retry(lab: Lab) -> None:
    job = lab.submit(name="fails")
    type(job).objects.filter(id=job.id).update(
        state="failed", failures=1, retries=0, reason_code="TASK_FAILED", ready=False, ended_at=NOW, waiting_tasks=0
    )

    text = browser(lab.ann).get(f"/jobs/{job.uid}").content.decode()
    type(job).objects.filter(id=job.id).update(failures=3, retries=2)

    assert "<dt>Retries</dt><dd>none</dd>" in text
    assert "<dt>Failed</dt><dd>1 time, by its own doing</dd>" in text
    assert queries.job(lab.ann, job.uid, now=NOW).retries_used == 2
