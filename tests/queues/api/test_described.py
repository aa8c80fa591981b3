"""What the API answers is what its schema describes, address by address, and so are its refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # comes with drf-spectacular

from queues import cycle
from queues.models import Decision, Eviction
from tests.queues.api.test_jobs import JSON, client
from tests.queues.lab import NOW, Lab, compact

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs" / "openapi.json").read_text())
BASE = "/api/v1"
# What is no JSON, or waits for something to happen.
NOT_HERE = {"/api/v1/jobs/{uid}/logs", "/api/v1/jobs/{uid}/wait"}


def faults(answer: Any, path: str, method: str) -> list[str]:  # noqa: ANN401  the test client's response
    """Return how an answer differs from what the schema says of its address and status."""
    said = SCHEMA["paths"][path][method]["responses"]
    described = said.get(str(answer.status_code), said["default"])
    if "content" not in described:
        return [] if not answer.content else ["a body where none is described"]
    kind = answer["Content-Type"].partition(";")[0]
    if kind not in described["content"]:
        return [f"{kind} is not described"]
    schema = {**described["content"][kind]["schema"], "components": SCHEMA["components"]}
    errors = Draft202012Validator(schema).iter_errors(answer.json())
    return [f"{method} {path} {answer.status_code}: {each.json_path}: {each.message[:200]}" for each in errors]


@pytest.fixture
def root(lab: Lab) -> Client:
    return client(lab.root)


@pytest.fixture
def busy(lab: Lab) -> dict[str, str]:
    """Let jobs of each shape wait, run and fail to fit, one lend to another and one be recalled; return names."""
    waits = lab.submit(name="waits", metadata={"labels": {"a": "b"}, "external_id": "x/1"})
    lab.submit(name="never", shape="gang", tasks=100, gpus="h100:8")
    later = lab.submit(name="later", shape="gang", tasks=100, gpus="h100:8")
    flexible = lab.submit(name="flexible", shape="elastic", tasks={"min": 1, "max": 4}, gpus="l40s:8")
    cycle.turn(NOW)
    runs = lab.submit(lab.carl, name="runs", team="cv", shape="gang", tasks=2, gpus="h100:8")
    wave = lab.start(runs, *lab.nodes[:2])
    Eviction.objects.create(
        wave=wave,
        claimant=waits,
        claim=1,
        at=NOW,
        rule="guaranteed",
        tasks=1,
        units=8,
        grace=waits.grace,
        lost_unit_seconds=9,
    )
    last = Decision.objects.order_by("-id").values_list("id", flat=True)[0]
    return {
        "uid": str(runs.uid),
        "waits": str(waits.uid),
        "flexible": str(flexible.uid),
        "later": str(later.uid),
        "cycle": str(last),
        "flavor": "h100",
        "team": "nlp",
        "user": "ann",
        "name": "default",
    }


def test_every_answer_to_a_question_is_as_described(root: Client, busy: dict[str, str]) -> None:
    found = []
    for path, operations in SCHEMA["paths"].items():
        if "get" not in operations or path in NOT_HERE:
            continue
        names = {**busy, "name": "normal" if "priority-classes" in path else "h0" if "nodes" in path else "default"}
        for uid in (busy["uid"], busy["waits"], busy["flexible"], busy["later"]) if "{uid}" in path else ("",):
            query = "?flavor=h100" if path == "/api/v1/queue" else "?count=exact" if path == "/api/v1/jobs" else ""
            answer = root.get(path.format(**{**names, "uid": uid}) + query)
            found += faults(answer, path, "get")
            found += [] if answer.status_code == 200 else [f"get {path}: {answer.status_code} {answer.content[:200]!r}"]

    assert not found


def test_every_answer_to_a_change_is_as_described(root: Client, lab: Lab, busy: dict[str, str]) -> None:
    spec = compact(name="new")
    edit = {"team": "nlp", "flavor": "h100", "guaranteed": 8}
    ann = client(lab.ann)
    changes: list[tuple[Client, str, str, dict[str, str], object, int]] = [
        (ann, "post", "/jobs", {}, spec, 201),
        (ann, "post", "/jobs:plan", {}, spec, 200),
        (ann, "post", "/jobs:batch", {}, {"jobs": [spec, {"kind": "none"}]}, 200),
        (ann, "post", "/jobs/{uid}:hold", {"uid": busy["later"]}, {}, 200),
        (ann, "post", "/jobs/{uid}:release", {"uid": busy["later"]}, {}, 200),
        (ann, "post", "/jobs/{uid}:rerun", {"uid": busy["waits"]}, {}, 201),
        (ann, "patch", "/jobs/{uid}", {"uid": busy["later"]}, {"priority": "high"}, 200),
        (root, "post", "/jobs/{uid}/checkpoint", {"uid": busy["uid"]}, {}, 200),
        (ann, "post", "/jobs/{uid}:cancel", {"uid": busy["waits"]}, {}, 200),
        (ann, "post", "/jobs:cancel", {}, {"ids": [busy["flexible"]], "dry_run": True}, 200),
        (root, "post", "/teams", {}, {"name": "audio"}, 201),
        (root, "post", "/teams/{team}:pause", {"team": "nlp"}, {}, 200),
        (root, "post", "/teams/{team}:resume", {"team": "nlp"}, {}, 200),
        (root, "put", "/teams/{team}/members/{user}", {"team": "cv", "user": "ann"}, {"role": "viewer"}, 200),
        (root, "delete", "/teams/{team}/members/{user}", {"team": "cv", "user": "ann"}, {}, 200),
        (root, "post", "/flavors", {}, {"name": "b200"}, 201),
        (root, "post", "/queues", {}, {"team": "nlp", "name": "night"}, 201),
        (root, "post", "/users", {}, {"username": "neo", "password": "a long and odd one"}, 201),
        (root, "post", "/quota-changes/preview", {}, {"edits": [edit]}, 200),
        (root, "post", "/tokens", {}, {"name": "ci", "scopes": ["jobs:read"]}, 201),
    ]

    found = []
    for who, method, path, names, body, status in changes:
        answer = getattr(who, method)(BASE + path.format(**names), json.dumps(body), content_type=JSON)
        found += faults(answer, BASE + path, method)
        found += [] if answer.status_code == status else [f"{method} {path}: {answer.status_code} {answer.content!r}"]

    assert not found


@pytest.mark.parametrize(
    ("method", "path", "extra", "status", "words"),
    [
        ("put", "/jobs", {}, 405, "PUT is not for this address; it takes GET or POST."),
        ("post", "/jobs", {"data": b"a", "content_type": "text/csv"}, 415, "send application/json, application/yaml"),
        ("get", "/jobs", {"headers": {"Accept": "text/csv"}}, 406, "this answers application/json"),
        ("post", "/jobs", {"data": b"x" * 1_100_000, "content_type": JSON}, 413, "at most 1048576 are read here"),
        ("post", "/teams", {"data": b"{}", "content_type": JSON}, 422, "name is needed."),
        ("post", "/teams", {"data": b'{"name": []}', "content_type": JSON}, 422, "name is a text."),
        ("post", "/tokens", {"data": b'{"name": "x", "scopes": 1}', "content_type": JSON}, 422, "scopes is a list"),
        ("get", "/jobs?limit=x", {}, 400, "limit"),
        ("get", "/jobs?cursor=x", {}, 400, "cursor"),
        ("get", "/jobs/nothing", {}, 404, "There is nothing at"),
        ("patch", "/queues/nlp/default", {"data": b"{}", "content_type": JSON}, 428, "If-Match"),
    ],
)
def test_every_refusal_is_a_problem_that_says_what_is_allowed(
    root: Client, method: str, path: str, extra: dict[str, Any], status: int, words: str
) -> None:
    answer = getattr(root, method)(BASE + path, **extra)

    problem = answer.json()
    described = {"$ref": "#/components/schemas/Problem", "components": SCHEMA["components"]}
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    assert not [each.message for each in Draft202012Validator(described).iter_errors(problem)]
    assert words in problem["detail"]
    assert not any(theirs in answer.content.decode() for theirs in ("This field", "Ensure this", "valid integer"))


def test_a_flood_of_unknown_fields_gets_a_short_answer(root: Client) -> None:
    body = {**compact(), "spec": {f"field{number}": 1 for number in range(5_000)}}

    answer = root.post(f"{BASE}/jobs", body, content_type=JSON)

    problem = answer.json()
    assert answer.status_code == 422
    assert any("5000 fields here that nobody knows" in error["detail"] for error in problem["errors"])
    assert len(problem["errors"]) < 30


def test_who_says_nothing_of_themselves_is_told_how(lab: Lab) -> None:
    del lab

    answer = Client().get(f"{BASE}/jobs")

    assert answer.status_code == 401
    assert "Authorization: Bearer" in answer.json()["detail"]
