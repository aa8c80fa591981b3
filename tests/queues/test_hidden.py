"""Credentials in the environment: no answer, page or object shown has their values."""

import json
from typing import Any

import pytest

from queues import queries, services
from queues.models import Job
from queues.spec import hidden
from tenants.errors import Invalid
from tests.queues import manifests
from tests.queues.api.test_jobs import JOBS, JSON, client
from tests.queues.lab import NOW, Lab, compact
from tests.queues.test_views_pages import browser

VALUE = "hf_dont_tell_anybody"
RUN = {"image": "reg.example/train:1", "env": {"HF_TOKEN": VALUE, "SEED": "7"}}


def written() -> dict[str, Any]:
    """Return a Job as people write one, with a credential and kubectl's own copy of it."""
    env = [{"name": "HF_TOKEN", "value": VALUE}, {"name": "SEED", "value": "7"}]
    found = manifests.job(meta={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": VALUE}})
    found["metadata"]["labels"] = {"tidegate.io/team": "nlp"}
    found["spec"]["template"]["spec"]["containers"][0]["env"] = env
    return found


@pytest.mark.parametrize(
    ("name", "credential"),
    [
        ("HF_TOKEN", True),
        ("aws_secret_access_key", True),
        ("PGPASSWORD", True),
        ("WANDB_API_KEY", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("SEED", False),
    ],
)
def test_the_name_of_a_variable_tells_a_credential(name: str, *, credential: bool) -> None:
    assert (hidden.masked({"env": {name: "x"}}) == {"env": {name: hidden.HIDDEN}}) is credential


def test_what_is_shown_leaves_what_is_stored_as_it_is() -> None:
    stored: dict[str, Any] = {
        "containers": [{"env": [{"name": "HF_TOKEN", "value": VALUE}, {"name": "KEY", "valueFrom": {}}]}]
    }

    shown = hidden.masked(stored)

    assert shown["containers"][0]["env"] == [
        {"name": "HF_TOKEN", "value": hidden.HIDDEN},
        {"name": "KEY", "valueFrom": {}},
    ]
    assert stored["containers"][0]["env"][0]["value"] == VALUE


@pytest.mark.parametrize("spec", [compact(run=RUN), written()], ids=["compact", "manifest"])
def test_no_answer_of_the_api_has_the_value_not_even_for_its_owner(lab: Lab, spec: dict[str, Any]) -> None:
    ann, art = client(lab.ann), client(lab.art)

    made = ann.post(JOBS, data=json.dumps(spec), content_type=JSON)

    assert made.status_code == 201, made.content
    uid = made.json()["id"]
    paths = (f"{JOBS}/{uid}", f"{JOBS}/{uid}/manifest", f"{JOBS}/{uid}/events", f"{JOBS}?state=queued")
    answers = [made, *(who.get(path) for who in (ann, art) for path in paths)]
    assert {answer.status_code for answer in answers} == {200, 201}
    assert [answer.content for answer in answers if VALUE.encode() in answer.content] == []
    assert hidden.HIDDEN.encode() in answers[1].content
    assert [warning["code"] for warning in made.json()["warnings"]] == ["PLAIN_CREDENTIAL"]


def test_no_page_has_the_value_and_the_spec_says_what_to_do(lab: Lab) -> None:
    job = lab.submit(lab.ann, run=RUN)
    paths = (
        f"/jobs/{job.uid}?tab=spec",
        f"/jobs/{job.uid}?tab=events",
        f"/jobs/{job.uid}",
        f"/jobs/new?from={job.uid}",
    )

    pages = [browser(who).get(path).content.decode() for who in (lab.ann, lab.art) for path in paths]

    assert [page for page in pages if VALUE in page] == []
    assert "HF_TOKEN: (hidden)" in pages[0]
    assert "secret_env" in pages[0]


def test_the_pod_gets_the_value_all_the_same(lab: Lab) -> None:
    lab.submit(lab.ann, run=RUN)

    assert Job.objects.get().spec["spec"]["run"]["env"]["HF_TOKEN"] == VALUE


@pytest.mark.parametrize("spec", [compact(run=RUN), written()], ids=["compact", "manifest"])
def test_what_was_hidden_is_not_taken_for_the_value(lab: Lab, spec: dict[str, Any]) -> None:
    job = services.submit(spec=spec, by=lab.ann, now=NOW).job
    shown = queries.job(lab.ann, job.uid, now=NOW).spec

    with pytest.raises(Invalid) as caught:
        services.submit(spec=shown, by=lab.ann, now=NOW)

    (error,) = caught.value.fields
    assert error.code == "hidden"
    assert error.detail.startswith("HF_TOKEN was hidden")


def test_a_colleague_who_runs_it_again_has_to_bring_their_own(lab: Lab) -> None:
    job = lab.submit(lab.ann, run=RUN)

    with pytest.raises(Invalid) as caught:
        services.rerun(uid=job.uid, by=lab.art, now=NOW)

    (error,) = caught.value.fields
    assert (error.code, error.pointer) == ("hidden", "/spec/run/env/HF_TOKEN")
    assert services.rerun(uid=job.uid, by=lab.ann, now=NOW).created
