"""Kubernetes manifests over HTTP."""

import yaml

from queues.models import Job
from tests.queues import manifests
from tests.queues.api.test_jobs import JOBS, client
from tests.queues.lab import Lab

YAML = "application/yaml"


def test_a_manifest_is_submitted_as_it_is_and_shown_as_it_was_sent(lab: Lab) -> None:
    manifest = manifests.job_set(parts={"workers": (2, 1, 8)}, meta={"namespace": "team-nlp"})

    made = client(lab.ann).post(JOBS, yaml.safe_dump(manifest), content_type=YAML)

    assert made.status_code == 201
    shown = made.json()
    assert (shown["shape"], shown["units"], shown["team"]) == ("gang", 16, "nlp")
    assert shown["spec"]["spec"]["manifest"] == manifest


def test_what_is_refused_is_named_by_pointers_into_what_was_sent(lab: Lab) -> None:
    manifest = manifests.job(meta={"labels": {"kueue.x-k8s.io/queue-name": "dreams"}})
    manifest["spec"]["template"]["spec"]["hostIPC"] = True

    refused = client(lab.ann).post(JOBS, yaml.safe_dump(manifest), content_type=YAML)

    assert refused.status_code == 422
    assert {error["pointer"] for error in refused.json()["errors"]} == {
        "/metadata/labels/kueue.x-k8s.io~1queue-name",
        "/spec/template/spec/hostIPC",
    }
    assert not Job.objects.exists()


def test_a_manifest_for_another_teams_namespace_is_not_found(lab: Lab) -> None:
    manifest = manifests.job(meta={"namespace": "team-cv"})

    refused = client(lab.ann).post(JOBS, manifest, content_type="application/json")

    assert refused.status_code == 404
    assert refused.json()["errors"][0]["pointer"] == "/metadata/namespace"
    assert not Job.objects.exists()


def test_a_plan_tells_how_a_manifest_was_read(lab: Lab) -> None:
    manifest = manifests.pytorch_job()

    plan = client(lab.ann).post(f"{JOBS}:plan", manifest, content_type="application/json").json()

    assert (plan["valid"], plan["units"]) == (True, 24)
    assert plan["written"] == "PyTorchJob: 1 x 8 h100/l40s (master) and 2 x 8 h100/l40s (worker), all together"


def test_a_rerun_of_a_manifest_is_the_same_again(lab: Lab) -> None:
    ann = client(lab.ann)
    first = ann.post(JOBS, manifests.job(pods=2), content_type="application/json").json()

    second = ann.post(f"{JOBS}/{first['id']}:rerun").json()

    assert second["id"] != first["id"]
    assert second["spec"]["spec"] == first["spec"]["spec"]
