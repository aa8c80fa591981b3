"""The scheduler: who goes where, and why not."""

from typing import Any

import pytest

from clusters.emulator import Emulator, NodeGroup, fitting, scheduler
from tests.clusters.emulator_kit import GPU, MERGE, Object, Talk, condition, pod, until


def _place(talk: Talk, name: str) -> str:
    node: str = until(lambda: talk.get(f"{talk.pods}/{name}")["spec"].get("nodeName"))
    return node


def _stranded(talk: Talk, name: str) -> str:
    message: str = until(
        lambda: (
            condition(body, "PodScheduled", "message")
            if condition(body := talk.get(f"{talk.pods}/{name}"), "PodScheduled", "reason") == "Unschedulable"
            else None
        )
    )
    return message


def _pinned(node: str) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def test_a_pod_is_bound_and_started(talk: Talk) -> None:
    talk.make(talk.pods, pod("p"))

    found = until(lambda: body if (body := talk.get(f"{talk.pods}/p"))["status"]["phase"] == "Running" else None)

    assert condition(found, "PodScheduled") == condition(found, "Ready") == "True"
    assert "Scheduled" in talk.reasons("p")


def test_affinity_to_a_node_name_is_kept(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", affinity=_pinned("small-1")))

    assert _place(talk, "p") == "small-1"


def test_a_pod_that_names_its_node_is_tried_on_no_other(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def note(spec: Object, wanted: dict[str, int], room: fitting.Room) -> list[str]:
        tried.append(room.node["metadata"]["name"])
        return fitting.complaints(spec, wanted, room)

    monkeypatch.setattr(scheduler, "complaints", note)
    talk.make(talk.pods, pod("p", affinity=_pinned("small-1")))

    assert (_place(talk, "p"), tried) == ("small-1", ["small-1"])


def test_a_pod_that_may_name_another_node_looks_at_all(talk: Talk) -> None:
    affinity = _pinned("absent")
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms.append({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["small"]}]})

    talk.make(talk.pods, pod("p", affinity=affinity))

    assert _place(talk, "p") in {"small-0", "small-1"}


def test_a_node_selector_is_kept(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", nodeSelector={"pool": "small"}))

    assert _place(talk, "p") in {"small-0", "small-1"}


def test_a_preferred_node_is_taken_where_it_fits(talk: Talk) -> None:
    preference = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["small-0"]}]}
    liking = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "preference": preference}]}
    }

    talk.make(talk.pods, pod("p", gpus=0, affinity=liking))

    assert _place(talk, "p") == "small-0"


def test_expressions_of_affinity_are_understood(talk: Talk) -> None:
    expressions = [
        {"key": "pool", "operator": "NotIn", "values": ["small"]},
        {"key": "tidegate.io/rack", "operator": "Exists"},
        {"key": "absent", "operator": "DoesNotExist"},
    ]
    affinity = _pinned("ignored")
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms[0] = {"matchExpressions": expressions}

    talk.make(talk.pods, pod("p", affinity=affinity))

    assert _place(talk, "p") in {"big-0", "big-1"}


def test_what_fits_nowhere_says_why(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=9))

    message = _stranded(talk, "p")

    assert message.startswith(f"0/4 nodes are available: 4 Insufficient {GPU}. preemption: 0/4 nodes")
    assert talk.get(f"{talk.pods}/p")["status"]["phase"] == "Pending"
    assert "FailedScheduling" in talk.reasons("p")


def test_reasons_are_counted_by_node(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=5, cpu="65", nodeSelector={"pool": "big"}))

    message = _stranded(talk, "p")

    assert "2 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector" in message


def test_a_stranded_pod_goes_as_soon_as_room_comes(talk: Talk) -> None:
    talk.make(talk.pods, pod("first", gpus=8, affinity=_pinned("big-0")))
    _place(talk, "first")
    talk.make(talk.pods, pod("second", gpus=1, affinity=_pinned("big-0")))
    assert f"1 Insufficient {GPU}" in _stranded(talk, "second")

    talk.drop(f"{talk.pods}/first")

    assert _place(talk, "second") == "big-0"


def test_ended_pods_take_no_room(talk: Talk) -> None:
    body = pod("done", gpus=4, affinity=_pinned("small-1"))
    talk.make(talk.pods, body)
    _place(talk, "done")
    talk.merge(f"{talk.pods}/done/status", {"status": {"phase": "Succeeded"}})

    talk.make(talk.pods, pod("next", gpus=4, affinity=_pinned("small-1")))

    assert _place(talk, "next") == "small-1"


def test_a_gated_pod_waits_and_may_be_narrowed_and_freed_in_one_step(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", schedulingGates=[{"name": "tidegate.io/plan"}]))
    gated = until(lambda: condition(talk.get(f"{talk.pods}/p"), "PodScheduled", "reason"))

    talk.merge(f"{talk.pods}/p", {"spec": {"schedulingGates": None, "affinity": _pinned("small-0")}})

    assert gated == "SchedulingGated"
    assert _place(talk, "p") == "small-0"


def test_affinity_may_not_change_without_a_gate_nor_widen_with_one(talk: Talk) -> None:
    talk.make(talk.pods, pod("free", gpus=9))
    talk.make(talk.pods, pod("gated", affinity=_pinned("big-0"), schedulingGates=[{"name": "a"}]))
    patch = {"spec": {"affinity": _pinned("big-1")}}

    assert talk.ask("PATCH", f"{talk.pods}/free", patch, media=MERGE)[0] == 422
    assert talk.ask("PATCH", f"{talk.pods}/gated", patch, media=MERGE)[0] == 422
    gates = {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}}
    assert talk.ask("PATCH", f"{talk.pods}/gated", gates, media=MERGE)[0] == 422


def test_priority_goes_first() -> None:
    room = {"cpu": "1", "memory": "1Gi", "pods": "10", GPU: "1"}
    with Emulator(nodes=[NodeGroup(name="only", allocatable=room)]) as small:
        talk = Talk(small, "default")
        talk.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 9})
        talk.make(talk.pods, pod("first"))
        _place(talk, "first")
        talk.make(talk.pods, pod("low"))
        talk.make(talk.pods, pod("high", priorityClassName="high"))
        _stranded(talk, "high")

        talk.drop(f"{talk.pods}/first")

        assert _place(talk, "high") == "only"
        assert "Insufficient" in _stranded(talk, "low")


def test_taints_keep_out_who_does_not_tolerate_them() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    with Emulator(nodes=[NodeGroup(name="only", taints=(taint,))]) as small:
        talk = Talk(small, "default")
        talk.make(talk.pods, pod("out", gpus=0))
        talk.make(talk.pods, pod("in", gpus=0, tolerations=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]))

        assert _place(talk, "in") == "only"
        assert "1 node(s) had untolerated taint(s)" in _stranded(talk, "out")

        talk.merge("/api/v1/nodes/only", {"spec": {"taints": None}})
        assert _place(talk, "out") == "only"


def test_a_cordoned_node_takes_nobody_new() -> None:
    with Emulator(nodes=[NodeGroup(name="only")]) as small:
        talk = Talk(small, "default")
        talk.make(talk.pods, pod("before", gpus=0))
        _place(talk, "before")

        talk.merge("/api/v1/nodes/only", {"spec": {"unschedulable": True}})
        talk.make(talk.pods, pod("after", gpus=0))

        assert "1 node(s) were unschedulable" in _stranded(talk, "after")
        taints = until(lambda: talk.get("/api/v1/nodes/only")["spec"].get("taints"))
        assert taints == [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
        talk.merge("/api/v1/nodes/only", {"spec": {"unschedulable": None}})
        assert _place(talk, "after") == "only"


def test_a_new_node_takes_who_waited() -> None:
    with Emulator() as empty:
        talk = Talk(empty, "default")
        talk.make(talk.pods, pod("p", gpus=0))
        assert _stranded(talk, "p") == "no nodes available to schedule pods"

        talk.make("/api/v1/nodes", {"metadata": {"name": "new"}})

        assert _place(talk, "p") == "new"


def test_no_more_pods_go_to_a_node_than_it_holds() -> None:
    with Emulator(nodes=[NodeGroup(name="only", allocatable={"cpu": "9", "memory": "9Gi", "pods": "1"})]) as small:
        talk = Talk(small, "default")
        talk.make(talk.pods, pod("one", gpus=0))
        _place(talk, "one")
        talk.make(talk.pods, pod("two", gpus=0))

        assert "1 Too many pods" in _stranded(talk, "two")


def test_pods_of_another_scheduler_are_bound_by_whoever_asks(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", schedulerName="mine"))
    target = {"target": {"kind": "Node", "name": "big-1"}}

    bound, _ = talk.ask("POST", f"{talk.pods}/p/binding", target)
    again, _ = talk.ask("POST", f"{talk.pods}/p/binding", target)

    assert (bound, again) == (201, 409)
    assert talk.get(f"{talk.pods}/p")["spec"]["nodeName"] == "big-1"
