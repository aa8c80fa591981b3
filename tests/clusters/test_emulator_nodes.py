"""Nodes: ready, silent, tainted, gone."""

from clusters.emulator import Emulator, NodeGroup
from tests.clusters.emulator_kit import Object, Talk, condition, job, pod, until

NODES = "/api/v1/nodes"
SILENT = {"metadata": {"labels": {"tidegate.test/kubelet": "down"}}}
BACK = {"metadata": {"labels": {"tidegate.test/kubelet": None}}}


def _tolerating(key: str, seconds: int | None = None) -> Object:
    toleration: Object = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


def _running(talk: Talk, name: str) -> Object:
    return until(lambda: body if (body := talk.get(f"{talk.pods}/{name}"))["status"]["phase"] == "Running" else None)


def test_a_node_that_is_created_becomes_ready(talk: Talk) -> None:
    talk.make(
        NODES, {"metadata": {"name": "late"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "3"}}}
    )

    node = until(lambda: body if condition(body := talk.get(f"{NODES}/late"), "Ready") == "True" else None)

    assert node["status"]["capacity"] == {"cpu": "1", "memory": "1Gi", "pods": "3"}
    talk.drop(f"{NODES}/late")


def test_a_taint_that_is_not_tolerated_evicts() -> None:
    with Emulator(nodes=[NodeGroup(name="only")]) as small:
        talk = Talk(small, "default")
        wishes = {"ignore-term": "1"}
        talk.make(talk.pods, pod("out", gpus=0, wishes=wishes))
        talk.make(talk.pods, pod("soon", gpus=0, wishes=wishes, tolerations=[_tolerating("maint", 1)]))
        talk.make(talk.pods, pod("later", gpus=0, wishes=wishes, tolerations=[_tolerating("maint", 3600)]))
        talk.make(talk.pods, pod("stays", gpus=0, tolerations=[_tolerating("maint")]))
        for name in ("out", "soon", "later", "stays"):
            _running(talk, name)

        talk.merge(f"{NODES}/only", {"spec": {"taints": [{"key": "maint", "effect": "NoExecute"}]}})

        out = until(lambda: body if "deletionTimestamp" in (body := talk.get(f"{talk.pods}/out"))["metadata"] else None)
        assert condition(out, "DisruptionTarget", "reason") == "DeletionByTaintManager"
        until(lambda: "deletionTimestamp" in talk.get(f"{talk.pods}/soon")["metadata"])
        for name in ("later", "stays"):
            assert "deletionTimestamp" not in talk.get(f"{talk.pods}/{name}")["metadata"]


def test_an_eviction_is_called_off_when_the_taint_goes() -> None:
    with Emulator(nodes=[NodeGroup(name="only")]) as small:
        talk = Talk(small, "default")
        talk.make(talk.pods, pod("patient", gpus=0, tolerations=[_tolerating("maint", 6)]))
        talk.make(talk.pods, pod("witness", gpus=0))
        for name in ("patient", "witness"):
            _running(talk, name)
        talk.merge(f"{NODES}/only", {"spec": {"taints": [{"key": "maint", "effect": "NoExecute"}]}})
        until(lambda: talk.gone(f"{talk.pods}/witness"))

        talk.merge(f"{NODES}/only", {"spec": {"taints": None}})
        talk.make(talk.jobs, job("longer", gpus=0, wishes={"run-for": "6500ms"}))
        talk.job_over("longer")

        assert "deletionTimestamp" not in talk.get(f"{talk.pods}/patient")["metadata"]


def test_a_silent_node_becomes_unknown_and_its_pods_are_left_alone(talk: Talk) -> None:
    selector = {"kubernetes.io/hostname": "big-1"}
    body = job("j", gpus=0, wishes={"forever": "1"}, inner={"nodeSelector": selector})
    talk.make(talk.jobs, body)
    talk.running("j", 1)

    talk.merge(f"{NODES}/big-1", SILENT)
    node = until(lambda: found if condition(found := talk.get(f"{NODES}/big-1"), "Ready") == "Unknown" else None)

    taints = {
        (taint["key"], taint["effect"]) for taint in until(lambda: talk.get(f"{NODES}/big-1")["spec"].get("taints"))
    }
    assert taints == {("node.kubernetes.io/unreachable", effect) for effect in ("NoSchedule", "NoExecute")}
    assert condition(node, "Ready", "reason") == "NodeStatusUnknown"
    assert talk.pods_of("j")[0]["status"]["phase"] == "Running"

    talk.drop(f"{talk.jobs}/j", propagationPolicy="Background")
    until(lambda: "deletionTimestamp" in talk.pods_of("j")[0]["metadata"])
    talk.merge(f"{NODES}/big-1", BACK)
    until(lambda: not talk.pods_of("j"))
    node = until(lambda: found if condition(found := talk.get(f"{NODES}/big-1"), "Ready") == "True" else None)
    until(lambda: "taints" not in talk.get(f"{NODES}/big-1")["spec"])


def test_a_pod_evicted_from_a_silent_node_stays_until_the_kubelet_is_back(talk: Talk) -> None:
    tolerations = [_tolerating("node.kubernetes.io/unreachable", 0)]
    selector = {"kubernetes.io/hostname": "small-1"}
    talk.make(talk.pods, pod("p", gpus=0, nodeSelector=selector, tolerations=tolerations))
    _running(talk, "p")

    talk.merge(f"{NODES}/small-1", SILENT)
    until(lambda: "deletionTimestamp" in talk.get(f"{talk.pods}/p")["metadata"])
    phase = talk.get(f"{talk.pods}/p")["status"]["phase"]
    talk.merge(f"{NODES}/small-1", BACK)

    assert phase == "Running"
    until(lambda: talk.gone(f"{talk.pods}/p"))


def test_the_pods_of_a_deleted_node_go(talk: Talk) -> None:
    talk.make(NODES, {"metadata": {"name": "doomed", "labels": {"pool": "doomed"}}})
    body = job("j", gpus=0, wishes={"forever": "1"}, inner={"nodeSelector": {"pool": "doomed"}})
    talk.make(talk.jobs, body)
    talk.running("j", 1)

    talk.drop(f"{NODES}/doomed")

    assert talk.job_over("j", "Failed")["status"]["failed"] == 1
    assert talk.pods_of("j") == []
