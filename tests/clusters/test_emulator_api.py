"""Verbs, refusals and discovery, by plain HTTP."""

from functools import partial

import pytest

from clusters.emulator import Emulator, NodeGroup
from tests.clusters.emulator_kit import (
    APPLY,
    ENTRY,
    GPU,
    MERGE,
    STEPS,
    STRATEGIC,
    Object,
    Talk,
    container,
    job,
    pod,
    until,
)


def test_version_and_health_are_served(talk: Talk) -> None:
    assert talk.get("/version")["gitVersion"].startswith("v1.37")
    assert talk.ask("GET", "/readyz", token="") == (200, "ok")


def test_discovery_names_every_kind_with_its_verbs(talk: Talk) -> None:
    core = {row["name"]: row for row in talk.get("/api/v1")["resources"]}
    batch = {row["name"] for row in talk.get("/apis/batch/v1")["resources"]}
    groups = {row["name"] for row in talk.get("/apis")["groups"]}

    assert {"pods", "pods/log", "pods/binding", "pods/eviction", "nodes", "nodes/status", "events"} <= core.keys()
    assert core["pods"]["namespaced"]
    assert not core["nodes"]["namespaced"]
    assert "watch" in core["pods"]["verbs"]
    assert batch == {"jobs", "jobs/status"}
    assert groups == {"batch", "coordination.k8s.io", "resource.k8s.io", "scheduling.k8s.io"}
    assert talk.get("/api")["versions"] == ["v1"]
    assert talk.get("/apis/batch")["preferredVersion"]["groupVersion"] == "batch/v1"


def test_openapi_tells_kubectl_that_fields_are_checked_here(talk: Talk) -> None:
    index = talk.get("/openapi/v3")["paths"]

    document = talk.get(index["apis/batch/v1"]["serverRelativeURL"])

    operation = document["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": "Job"}
    assert "fieldValidation" in {parameter["name"] for parameter in operation["parameters"]}


@pytest.mark.parametrize("path", ["/api/v2/pods", "/apis/nothing.test/v1/things", "/api/v1/things", "/nowhere"])
def test_an_unknown_path_is_404(talk: Talk, path: str) -> None:
    status, body = talk.ask("GET", path)

    assert (status, body["kind"], body["reason"]) == (404, "Status", "NotFound")


def test_a_missing_object_is_404_and_named(talk: Talk) -> None:
    status, body = talk.ask("GET", f"{talk.jobs}/absent")

    assert (status, body["message"]) == (404, 'jobs.batch "absent" not found')
    assert body["details"] == {"name": "absent", "group": "batch", "kind": "jobs"}


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_missing_or_wrong_token_is_401(talk: Talk, token: str) -> None:
    status, body = talk.ask("GET", "/api/v1/nodes", token=token)

    assert (status, body["reason"]) == (401, "Unauthorized")


def test_without_a_token_of_its_own_the_emulator_asks_nobody() -> None:
    with Emulator() as open_to_all:
        assert Talk(open_to_all, "default").ask("GET", "/api/v1/nodes", token=ENTRY)[0] == 200


def test_methods_that_a_path_lacks_are_405(talk: Talk) -> None:
    assert talk.ask("POST", "/api/v1/nodes/big-0", {})[0] == 405
    assert talk.ask("PUT", talk.jobs, {})[0] == 405
    assert talk.ask("DELETE", "/version")[0] == 405


def test_a_name_taken_is_409(talk: Talk) -> None:
    talk.make(talk.jobs, job("twice", suspend=True))

    status, body = talk.ask("POST", talk.jobs, job("twice"))

    assert (status, body["reason"], body["message"]) == (409, "AlreadyExists", 'jobs.batch "twice" already exists')


def test_a_stale_resource_version_is_409(talk: Talk) -> None:
    stale = talk.make(talk.maps, {"metadata": {"name": "map"}, "data": {"a": "1"}})
    talk.merge(f"{talk.maps}/map", {"data": {"a": "2"}})

    status, body = talk.ask("PUT", f"{talk.maps}/map", stale)
    patched, _ = talk.ask("PATCH", f"{talk.maps}/map", {"metadata": {"resourceVersion": "1"}}, media=MERGE)

    assert (status, body["reason"]) == (409, "Conflict")
    assert patched == 409


def test_an_update_that_changes_nothing_keeps_the_version(talk: Talk) -> None:
    before = talk.make(talk.maps, {"metadata": {"name": "map"}, "data": {"a": "1"}})

    after = talk.merge(f"{talk.maps}/map", {"data": {"a": "1"}})

    assert after == before


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b'"text"',
        b"[" * 5000,
        b'{"metadata": []}',
        b'{"kind": "Pod", "metadata": {"name": "x"}}',
        b'{"apiVersion": "v1", "metadata": {"name": "x"}}',
        b'{"metadata": {"name": "x"}, "spec": {"parallelism": "many"}}',
        b'{"metadata": {"name": "x"}, "spec": {"parallelism": 99999999999999999999}}',
        b'{"metadata": {"name": "x"}, "spec": {"suspend": 1}}',
        b'{"metadata": {"name": "x", "labels": {"a": 1}}}',
        b'{"metadata": {"name": "x", "namespace": "other"}}',
    ],
)
def test_a_body_that_cannot_be_read_is_400(talk: Talk, body: bytes) -> None:
    status, answer = talk.ask("POST", talk.jobs, body)

    assert (status, answer["reason"]) == (400, "BadRequest")


def test_a_quantity_that_is_none_is_400(talk: Talk) -> None:
    status, body = talk.ask("POST", talk.pods, pod("p", cpu="much"))

    assert status == 400
    assert "quantities must match the regular expression" in body["message"]


def test_a_body_of_another_encoding_is_415_and_a_huge_one_413(talk: Talk) -> None:
    assert talk.ask("POST", talk.jobs, b"k8s", media="application/vnd.kubernetes.protobuf")[0] == 415
    assert talk.ask("POST", talk.jobs, b" " * (3 * 1024 * 1024 + 1))[0] == 413


def _bare(**changes: object) -> dict[str, object]:
    return {**container(), **changes}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [_bare(image="")]}, "spec.containers[0].image"),
        ({"containers": [_bare(name="Main")]}, "spec.containers[0].name"),
        ({"containers": [_bare(), _bare()]}, "spec.containers[1].name"),
        ({"containers": [_bare(resources={"limits": {GPU: "-1"}})]}, f"spec.containers[0].resources.limits[{GPU}]"),
        ({"containers": [_bare(resources={"limits": {GPU: "500m"}})]}, f"spec.containers[0].resources.limits[{GPU}]"),
        ({"containers": [_bare(resources={"requests": {GPU: "1"}})]}, "spec.containers[0].resources.limits"),
        ({"containers": [_bare(resources={"limits": {"gpu": "1"}})]}, "spec.containers[0].resources.limits[gpu]"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"nodeSelector": {"a": "b c"}}, "spec.nodeSelector"),
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator"),
        ({"terminationGracePeriodSeconds": -1}, "spec.terminationGracePeriodSeconds"),
    ],
)
def test_a_pod_that_breaks_a_rule_is_422_and_the_field_is_named(talk: Talk, spec: Object, field: str) -> None:
    status, body = talk.ask("POST", talk.pods, pod("p", **spec))

    assert (status, body["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in body["details"]["causes"]}


def test_limits_of_an_extended_resource_must_equal_its_requests(talk: Talk) -> None:
    body = pod("p")
    body["spec"]["containers"][0]["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "2"}}

    assert talk.ask("POST", talk.pods, body)[0] == 422


@pytest.mark.parametrize("name", ["Bad_Name", "a" * 64, "", "-a", "a/b"])
def test_a_bad_job_name_is_422(talk: Talk, name: str) -> None:
    assert talk.ask("POST", talk.jobs, job(name))[0] == 422


def test_a_job_name_must_leave_room_for_its_largest_index(talk: Talk) -> None:
    assert talk.ask("POST", talk.jobs, job("a" * 61, n=10, suspend=True))[0] == 201
    assert talk.ask("POST", talk.jobs, job("a" * 61, n=11, suspend=True))[0] == 422


def test_job_rules_are_checked(talk: Talk) -> None:
    restarts = job("a", inner={"restartPolicy": "Always"})
    headless = job("b")
    del headless["spec"]["completions"]

    assert talk.ask("POST", talk.jobs, restarts)[0] == 422
    assert talk.ask("POST", talk.jobs, headless)[0] == 422
    assert talk.ask("POST", talk.jobs, job("c", backoffLimit=-1))[0] == 422
    assert talk.ask("POST", talk.jobs, job("d", podReplacementPolicy="Never"))[0] == 422


@pytest.mark.parametrize("labels", [{"a" * 64: "x"}, {"a": "x" * 64}, {"a b": "x"}, {"a": "ä"}, {"_/x/y": "z"}])
def test_bad_labels_are_422(talk: Talk, labels: dict[str, str]) -> None:
    assert talk.ask("POST", talk.maps, {"metadata": {"name": "map", "labels": labels}})[0] == 422


def test_a_namespace_name_is_a_label_of_at_most_63_characters(talk: Talk) -> None:
    assert talk.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n" * 64}})[0] == 422
    assert talk.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}})[0] == 422


def test_an_object_for_a_missing_namespace_is_404(talk: Talk) -> None:
    status, body = talk.ask("POST", "/apis/batch/v1/namespaces/absent/jobs", job("j"))

    assert (status, body["message"]) == (404, 'namespaces "absent" not found')


def test_a_pod_of_an_unknown_priority_class_is_403(talk: Talk) -> None:
    status, body = talk.ask("POST", talk.pods, pod("p", priorityClassName="absent"))

    assert status == 403
    assert "no PriorityClass with name absent was found" in body["message"]


def test_a_priority_class_gives_its_value_and_keeps_it(talk: Talk) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    talk.make(path, {"metadata": {"name": "urgent"}, "value": 70})

    made = talk.make(talk.pods, pod("p", priorityClassName="urgent"))

    assert made["spec"]["priority"] == 70
    assert talk.ask("PATCH", f"{path}/urgent", {"value": 71}, media=MERGE)[0] == 422


def test_defaults_are_filled_in(talk: Talk) -> None:
    made = talk.make(talk.pods, pod("p", gpus=2))

    spec = made["spec"]
    assert spec["containers"][0]["resources"]["requests"][GPU] == "2"
    assert (spec["terminationGracePeriodSeconds"], spec["schedulerName"]) == (30, "default-scheduler")
    assert {row["key"] for row in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


def test_generated_names_are_made_up(talk: Talk) -> None:
    body = pod("x")
    body["metadata"] = {"generateName": "made-"}

    names = {talk.make(talk.pods, body)["metadata"]["name"] for _ in range(3)}

    assert len(names) == 3
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


def test_a_dry_run_leaves_nothing(talk: Talk) -> None:
    assert talk.ask("POST", f"{talk.jobs}?dryRun=All", job("dry"))[0] == 201
    assert talk.gone(f"{talk.jobs}/dry")


def test_lists_are_chosen_by_labels_and_fields(talk: Talk) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2", "y": ""}), ("c", {})):
        talk.make(talk.maps, {"metadata": {"name": name, "labels": labels}})

    def names(query: str) -> list[str]:
        return [row["metadata"]["name"] for row in talk.get(f"{talk.maps}?{query}")["items"]]

    assert names("labelSelector=x%3D1") == ["a"]
    assert names("labelSelector=x!%3D1") == ["b", "c"]
    assert names("labelSelector=x%20in%20(1,2),!y") == ["a"]
    assert names("labelSelector=x%20notin%20(1)") == ["b", "c"]
    assert names("labelSelector=y") == ["b"]
    assert names("fieldSelector=metadata.name%3Dc") == ["c"]
    assert talk.ask("GET", f"{talk.maps}?fieldSelector=data.a%3D1")[0] == 400
    assert talk.ask("GET", f"{talk.maps}?labelSelector=a%20b")[0] == 400


def test_lists_come_in_pages(talk: Talk) -> None:
    for name in "abcde":
        talk.make(talk.maps, {"metadata": {"name": name}})

    first = talk.get(f"{talk.maps}?limit=2")
    second = talk.get(f"{talk.maps}?limit=2&continue={first['metadata']['continue']}")
    third = talk.get(f"{talk.maps}?limit=2&continue={second['metadata']['continue']}")

    pages = [[row["metadata"]["name"] for row in page["items"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert first["metadata"]["remainingItemCount"] == 3
    assert "continue" not in third["metadata"]
    assert first["kind"] == "ConfigMapList"


def test_an_old_continue_token_is_410_and_a_made_up_one_400(talk: Talk) -> None:
    for name in "abc":
        talk.make(talk.maps, {"metadata": {"name": name}})
    token = talk.get(f"{talk.maps}?limit=1")["metadata"]["continue"]
    talk.merge(f"{talk.maps}/a", {"data": {"x": "y"}})
    talk.emulator.compact()

    status, body = talk.ask("GET", f"{talk.maps}?limit=1&continue={token}")

    assert (status, body["reason"]) == (410, "Expired")
    assert talk.ask("GET", f"{talk.maps}?limit=1&continue=xyz")[0] == 400


def test_merge_patch_sets_and_removes(talk: Talk) -> None:
    talk.make(talk.maps, {"metadata": {"name": "map", "labels": {"a": "1", "b": "2"}}})

    patched = talk.merge(f"{talk.maps}/map", {"metadata": {"labels": {"a": None, "c": "3"}}})

    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}


def test_strategic_patch_merges_lists_by_key(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", schedulingGates=[{"name": "one"}, {"name": "two"}]))
    patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "one"}]}}

    status, patched = talk.ask("PATCH", f"{talk.pods}/p", patch, media=STRATEGIC)

    assert status == 200
    assert patched["spec"]["schedulingGates"] == [{"name": "two"}]


def test_json_patch_applies_or_is_422(talk: Talk) -> None:
    talk.make(talk.maps, {"metadata": {"name": "map"}, "data": {"a/b": "1"}})
    path = f"{talk.maps}/map"

    status, patched = talk.ask("PATCH", path, [{"op": "replace", "path": "/data/a~1b", "value": "2"}], media=STEPS)
    failed, _ = talk.ask("PATCH", path, [{"op": "test", "path": "/data/a~1b", "value": "1"}], media=STEPS)
    absent, _ = talk.ask("PATCH", path, [{"op": "remove", "path": "/data/z"}], media=STEPS)

    assert (status, patched["data"]) == (200, {"a/b": "2"})
    assert (failed, absent) == (422, 422)
    assert talk.ask("PATCH", path, {"op": "add"}, media=STEPS)[0] == 400


def test_apply_creates_merges_and_names_the_manager_it_conflicts_with(talk: Talk) -> None:
    def apply(manager: str, data: dict[str, str], force: str = "") -> tuple[int, dict[str, object]]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": data}
        return talk.ask("PATCH", f"{talk.maps}/map?fieldManager={manager}{force}", body, media=APPLY)

    created, _ = apply("one", {"k": "1", "mine": "1"})
    again, same = apply("one", {"k": "1", "mine": "1"})
    status, refusal = apply("two", {"k": "2"})
    forced, _ = apply("two", {"k": "2"}, "&force=true")
    _, dropped = apply("one", {})

    assert (created, again, status, forced) == (201, 200, 409, 200)
    assert 'conflict with "one"' in str(refusal["details"])
    assert dropped["data"] == {"k": "2"}
    assert same["data"] == {"k": "1", "mine": "1"}


def test_apply_needs_a_manager_and_refuses_yaml_aliases(talk: Talk) -> None:
    bomb = b"a: &a [x, x]\nb: *a\n"

    assert talk.ask("PATCH", f"{talk.maps}/map", {}, media=APPLY)[0] == 400
    assert talk.ask("PATCH", f"{talk.maps}/map?fieldManager=m", bomb, media=APPLY)[0] == 400


def test_status_changes_only_through_its_subresource(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", suspend=True))
    until(lambda: talk.get(f"{talk.jobs}/j")["status"].get("conditions"))

    talk.merge(f"{talk.jobs}/j", {"status": {"failed": 7}, "spec": {"parallelism": 2}})
    talk.merge(f"{talk.jobs}/j/status", {"status": {"failed": 5}, "spec": {"parallelism": 3}})

    found = talk.get(f"{talk.jobs}/j")
    assert (found["status"]["failed"], found["spec"]["parallelism"]) == (5, 2)


def test_a_job_keeps_its_template_and_completions(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", wishes={"forever": "1"}))
    talk.running("j", 1)

    template = {"spec": {"template": {"metadata": {"labels": {"new": "1"}}}}}
    assert talk.ask("PATCH", f"{talk.jobs}/j", template, media=MERGE)[0] == 422
    assert talk.ask("PATCH", f"{talk.jobs}/j", {"spec": {"completions": 5}}, media=MERGE)[0] == 422


def test_uid_and_creation_time_cannot_be_changed(talk: Talk) -> None:
    before = talk.make(talk.maps, {"metadata": {"name": "map"}})

    status, _ = talk.ask("PATCH", f"{talk.maps}/map", {"metadata": {"uid": "other"}}, media=MERGE)
    after = talk.merge(f"{talk.maps}/map", {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}})

    assert status == 409
    assert after["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]


def test_a_headless_service_keeps_its_shape(talk: Talk) -> None:
    path = f"/api/v1/namespaces/{talk.namespace}/services"
    spec = {"clusterIP": "None", "selector": {"job-name": "j"}, "ports": [{"name": "main", "port": 29500}]}

    made = talk.make(path, {"metadata": {"name": "head"}, "spec": spec})["spec"]
    renamed, _ = talk.ask("POST", path, {"metadata": {"name": "1head"}, "spec": spec})

    assert (made["clusterIP"], made["clusterIPs"]) == ("None", ["None"])
    assert made["ports"] == [{"protocol": "TCP", "targetPort": 29500, "name": "main", "port": 29500}]
    assert renamed == 422


def _is_started(talk: Talk, name: str) -> bool:
    return "Started" in talk.reasons(name)


def test_the_oldest_events_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.emulator.events.MOST_KEPT", 5)
    with Emulator(nodes=[NodeGroup(name="only")]) as own:
        talk = Talk(own, "default")
        for name in ("p0", "p1", "p2", "p3"):
            talk.make(talk.pods, pod(name, gpus=0))
            until(partial(_is_started, talk, name))

        until(lambda: len(talk.get("/api/v1/events")["items"]) == 5)
        assert talk.reasons("p3") == {"Scheduled", "Started"}
        assert talk.reasons("p0") == set()


def test_an_event_that_repeats_is_counted(talk: Talk) -> None:
    events = f"/api/v1/namespaces/{talk.namespace}/events"
    talk.make(talk.jobs, job("j", gpus=0, suspend=True, wishes={"forever": "1"}))
    until(lambda: "Suspended" in talk.reasons("j"))
    talk.merge(f"{talk.jobs}/j", {"spec": {"suspend": False}})
    until(lambda: "Resumed" in talk.reasons("j"))
    talk.merge(f"{talk.jobs}/j", {"spec": {"suspend": True}})

    found = until(lambda: [row for row in talk.get(events)["items"] if row["count"] > 1])

    assert [(row["reason"], row["count"]) for row in found] == [("Suspended", 2)]


def test_leases_are_held_by_resource_version(talk: Talk) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{talk.namespace}/leases"
    lease = talk.make(path, {"metadata": {"name": "head"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}})

    renewed, _ = talk.ask("PUT", f"{path}/head", {**lease, "spec": {**lease["spec"], "leaseTransitions": 1}})
    stolen, _ = talk.ask("PUT", f"{path}/head", {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}})

    assert (renewed, stolen) == (200, 409)
