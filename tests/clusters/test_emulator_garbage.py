"""Deletions: propagation, finalizers, collections, namespaces."""

from tests.clusters.emulator_kit import Object, Talk, job, pod, until

FOREVER = {"forever": "1"}


def _owned(name: str, owner: Object, **more: object) -> Object:
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **more}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


def test_background_deletion_takes_the_pods_along(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", n=2, gpus=0, wishes=FOREVER))
    talk.running("j", 2)

    status = talk.drop(f"{talk.jobs}/j", propagationPolicy="Background")

    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert talk.gone(f"{talk.jobs}/j")
    until(lambda: not talk.pods_of("j"))


def test_foreground_deletion_waits_for_the_pods(talk: Talk) -> None:
    wishes = {**FOREVER, "ignore-term": "1"}
    talk.make(talk.jobs, job("j", gpus=0, wishes=wishes, inner={"terminationGracePeriodSeconds": 600}))
    talk.running("j", 1)

    leaving = talk.drop(f"{talk.jobs}/j?propagationPolicy=Foreground")

    assert leaving["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert talk.pods_of("j")
    talk.drop(f"{talk.pods}/{talk.pods_of('j')[0]['metadata']['name']}?gracePeriodSeconds=0")
    until(lambda: talk.gone(f"{talk.jobs}/j"))
    assert talk.pods_of("j") == []


def test_a_job_deleted_without_a_policy_leaves_its_pods_as_batch_v1_does(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, wishes=FOREVER))
    talk.running("j", 1)

    talk.drop(f"{talk.jobs}/j")

    until(lambda: talk.gone(f"{talk.jobs}/j"))
    left = talk.pods_of("j")[0]["metadata"]
    assert "ownerReferences" not in left
    until(lambda: "finalizers" not in talk.pods_of("j")[0]["metadata"])


def test_what_has_lost_its_owner_goes_and_what_has_another_stays(talk: Talk) -> None:
    owner = talk.make(talk.maps, {"metadata": {"name": "owner"}})
    other = talk.make(talk.maps, {"metadata": {"name": "other"}})
    owner, other = ({**each, "apiVersion": "v1", "kind": "ConfigMap"} for each in (owner, other))
    talk.make(talk.maps, _owned("one", owner))
    shared = _owned("both", owner)
    shared["metadata"]["ownerReferences"] += _owned("both", other)["metadata"]["ownerReferences"]
    talk.make(talk.maps, shared)

    talk.drop(f"{talk.maps}/owner")

    until(lambda: talk.gone(f"{talk.maps}/one"))
    both = talk.get(f"{talk.maps}/both")["metadata"]
    assert [each["name"] for each in both["ownerReferences"]] == ["other"]


def test_an_object_made_for_an_owner_that_is_gone_goes(talk: Talk) -> None:
    owner = talk.make(talk.maps, {"metadata": {"name": "owner"}})
    talk.drop(f"{talk.maps}/owner")

    talk.make(talk.maps, _owned("late", owner))

    until(lambda: talk.gone(f"{talk.maps}/late"))


def test_a_wrong_owner_name_costs_only_the_object_that_has_it(talk: Talk) -> None:
    owner = {**talk.make(talk.maps, {"metadata": {"name": "owner"}}), "apiVersion": "v1", "kind": "ConfigMap"}
    talk.make(talk.maps, _owned("right", owner))
    wrong = _owned("wrong", owner)
    wrong["metadata"]["ownerReferences"][0]["name"] = "absent"

    talk.make(talk.maps, wrong)

    until(lambda: talk.gone(f"{talk.maps}/wrong"))
    assert talk.get(f"{talk.maps}/right")["metadata"]["ownerReferences"][0]["name"] == "owner"


def test_a_finalizer_holds_an_object_until_it_is_taken_away(talk: Talk) -> None:
    talk.make(talk.maps, {"metadata": {"name": "map", "finalizers": ["tidegate.io/hold"]}})

    held = talk.drop(f"{talk.maps}/map")
    again = talk.drop(f"{talk.maps}/map")
    talk.merge(f"{talk.maps}/map", {"metadata": {"finalizers": None}})

    assert held["metadata"]["deletionTimestamp"] == again["metadata"]["deletionTimestamp"]
    assert talk.gone(f"{talk.maps}/map")


def test_preconditions_of_a_deletion_are_checked(talk: Talk) -> None:
    made = talk.make(talk.maps, {"metadata": {"name": "map"}})

    other = talk.ask("DELETE", f"{talk.maps}/map", {"preconditions": {"uid": "other"}})[0]
    stale = talk.ask("DELETE", f"{talk.maps}/map", {"preconditions": {"resourceVersion": "1"}})[0]
    right = talk.ask("DELETE", f"{talk.maps}/map", {"preconditions": {"uid": made["metadata"]["uid"]}})[0]

    assert (other, stale, right) == (409, 409, 200)


def test_options_that_make_no_sense_are_refused(talk: Talk) -> None:
    talk.make(talk.maps, {"metadata": {"name": "map"}})

    assert talk.ask("DELETE", f"{talk.maps}/map", {"propagationPolicy": "Sideways"})[0] == 422
    assert talk.ask("DELETE", f"{talk.maps}/map", {"gracePeriodSeconds": "soon"})[0] == 400
    assert talk.ask("DELETE", f"{talk.maps}/map?gracePeriodSeconds=-1")[0] == 400
    assert talk.ask("DELETE", f"{talk.maps}/map", {"preconditions": []})[0] == 400
    assert talk.get(f"{talk.maps}/map")


def test_a_collection_is_deleted_by_selector(talk: Talk) -> None:
    for name, mark in (("a", "x"), ("b", "x"), ("c", "y")):
        talk.make(talk.maps, {"metadata": {"name": name, "labels": {"mark": mark}}})

    talk.drop(f"{talk.maps}?labelSelector=mark%3Dx")

    assert [row["metadata"]["name"] for row in talk.get(talk.maps)["items"]] == ["c"]


def test_a_deleted_namespace_empties_itself_and_refuses_new_objects(talk: Talk) -> None:
    path = f"/api/v1/namespaces/{talk.namespace}"
    wishes = {**FOREVER, "ignore-term": "1"}
    talk.make(talk.jobs, job("j", gpus=0, wishes=wishes, inner={"terminationGracePeriodSeconds": 600}))
    talk.running("j", 1)

    ending = talk.drop(path)
    status, refusal = talk.ask("POST", talk.maps, {"metadata": {"name": "late"}})

    assert ending["status"]["phase"] == "Terminating"
    assert (status, refusal["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    talk.drop(f"{talk.pods}/{talk.pods_of('j')[0]['metadata']['name']}?gracePeriodSeconds=0")
    until(lambda: talk.gone(path))
    assert talk.get(talk.pods)["items"] == []


def test_every_namespace_has_its_service_account(talk: Talk) -> None:
    accounts = talk.get(f"/api/v1/namespaces/{talk.namespace}/serviceaccounts")["items"]

    assert [row["metadata"]["name"] for row in accounts] == ["default"]


def test_deleting_a_finished_pod_needs_no_kubelet(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=0))
    until(lambda: talk.get(f"{talk.pods}/p")["status"]["phase"] == "Running")
    talk.merge(f"{talk.pods}/p/status", {"status": {"phase": "Failed"}})

    talk.drop(f"{talk.pods}/p")

    assert talk.gone(f"{talk.pods}/p")
