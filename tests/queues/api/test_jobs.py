"""Jobs over HTTP."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils.module_loading import import_string

from queues import cycle
from queues.models import Job
from queues.states import JobState
from tenants.models import ApiToken, AuditEntry, User
from tenants.permissions import Actor, Scope
from tenants.services.tokens import digest
from tests.queues.lab import NOW, Lab, compact
from tests.queues.test_services import statements

JOBS = "/api/v1/jobs"
JSON = "application/json"


def client(who: Actor | User, *scopes: str) -> Client:
    user = who.user if isinstance(who, Actor) else who
    secret = f"tg_{user.username}_{uuid4().hex}"
    ApiToken.objects.create(
        user=user,
        name="test",
        prefix=secret[:9],
        digest=digest(secret),
        scopes=list(scopes or [Scope.ADMIN]),
        created_at=NOW,
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        last_used_at=datetime.now(UTC),
    )
    return Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def ann(lab: Lab) -> Client:
    return client(lab.ann)


def post(by: Client, body: object, address: str = JOBS, **headers: str) -> Any:  # noqa: ANN401  an answer
    return by.post(address, body, content_type=JSON, headers=headers)


def submit(by: Client, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a spec
    answer = post(by, compact(**changes))
    assert answer.status_code == 201, answer.json()
    return dict(answer.json())


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"labels": {"a": "b"}, "external_id": "x/1"}},
        {"shape": "gang", "tasks": 3, "time_limit": "90m", "priority": "high", "borrow": False, "retries": 2},
        {"shape": "independent", "tasks": 5, "gpus": {"count": 2, "type": ["l40s", "h100"]}},
    ],
)
def test_what_a_submission_answers_is_what_the_job_itself_would(ann: Client, changes: dict[str, Any]) -> None:
    answer = submit(ann, **changes)
    shown = ann.get(f"{JOBS}/{answer['id']}").json()

    told = {key: value for key, value in answer.items() if key in shown}
    assert told == shown | {"position": None}
    assert answer.keys() - shown.keys() == {"created", "terminal", "warnings"}


def test_a_submission_asks_the_database_few_things(ann: Client) -> None:
    submit(ann)
    with CaptureQueriesContext(connection) as said:
        submit(ann)

    assert len(said) <= 13


def test_a_job_is_submitted_and_shown_at_its_address(ann: Client) -> None:
    answer = post(ann, compact(shape="gang", tasks=2, gpus="h100:8", time_limit="2h"))
    shown = ann.get(answer["Location"]).json()

    body = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == f"{JOBS}/{body['id']}"
    assert (body["state"], body["attempt"], body["created"], body["warnings"]) == ("queued", 1, True, [])
    assert (shown["tasks"], shown["units"], shown["gpu_types"]) == (2, 16, ["h100"])
    assert (shown["time_limit"], shown["grace"], shown["estimate"]) == ("2h", "30s", None)
    assert shown["position"] == {"rank": 1, "units_ahead": 0, "about": False}
    assert shown["reason"]["code"] == "NOT_DECIDED"
    assert shown["groups"][0]["image"] == "reg.example/train:1"


def test_a_job_is_submitted_as_yaml(ann: Client) -> None:
    text = """
apiVersion: tidegate/v1
kind: Job
metadata: {name: llama-sft, team: nlp, labels: {mlflow.run_id: 8f2c}}
spec:
  shape: gang
  tasks: 4
  gpus: {count: 8, type: [h100, l40s]}
  resources: {cpu: 64, memory: 512Gi, shm: 64Gi}
  run: {image: "reg.example/sft:1.4", command: [torchrun, train.py], env: {A: b}, secrets: [hf-token]}
  time_limit: 12h
  priority: normal
  borrow: true
  grace: 120s
  retries: 2
"""

    answer = ann.post(JOBS, text, content_type="application/yaml")

    assert answer.status_code == 201, answer.json()
    assert answer.json()["gpu_types"] == ["h100", "l40s"]
    assert answer.json()["labels"] == {"mlflow.run_id": "8f2c"}


def test_a_submission_takes_few_statements(ann: Client) -> None:
    submit(ann)

    with CaptureQueriesContext(connection) as captured:
        post(ann, compact())

    assert statements(captured) <= 22


def test_the_same_idempotency_key_makes_one_job(ann: Client) -> None:
    key = {"Idempotency-Key": "k1"}

    first, again = (post(ann, compact(), **key) for _ in range(2))
    other = post(ann, compact(name="other"), **key)

    assert again.json()["id"] == first.json()["id"]
    assert again["Idempotency-Replayed"] == "true"
    assert other.status_code == 422
    assert Job.objects.count() == 1


def test_attach_answers_200_with_the_live_job_and_says_when_it_has_ended(ann: Client) -> None:
    spec = compact(metadata={"external_id": "run-1"})
    first = post(ann, spec).json()

    taken = post(ann, spec)
    live = post(ann, spec, f"{JOBS}?if_exists=attach")
    ann.post(f"{JOBS}/{first['id']}:cancel")
    ended = post(ann, spec, f"{JOBS}?if_exists=attach")

    assert (taken.status_code, taken.json()["code"]) == (409, "external_id_taken")
    assert taken.json()["hints"][0]["href"] == f"{JOBS}/{first['id']}"
    assert (live.status_code, live.json()["id"], live.json()["created"]) == (200, first["id"], False)
    assert (ended.json()["terminal"], ended.json()["attempt"], ended.json()["id"]) == (True, 1, first["id"])


@pytest.mark.parametrize(
    ("changes", "status", "pointer", "says"),
    [
        ({"team": "nowhere"}, 404, "/metadata/team", "there is no team nowhere; there is nlp"),
        ({"gpus": "h900:1"}, 422, "/spec/gpus/type", "there is no GPU type h900; did you mean h100?"),
        ({"tusks": 3}, 422, "/spec/tusks", "there is no field tusks; did you mean tasks?"),
        ({"gpus": "h100:0"}, 422, "/spec/gpus/count", "count is from 1 to 100000, not 0"),
        ({"tasks": -1}, 422, "/spec/tasks", "tasks is from 1 to 10000, not -1"),
        ({"tasks": 10_001, "shape": "gang"}, 422, "/spec/tasks", "tasks is from 1 to 10000, not 10001"),
        ({"name": "n" * 201}, 422, "/metadata/name", "name has at most 200 characters, not 201"),
        ({"name": "<script>"}, 422, "/metadata/name", "starting and ending with a letter or digit"),
        ({"shape": "elastic"}, 422, "/spec/tasks", "a mapping like {min: 2, max: 8}"),
        ({"priority": "urgent"}, 422, "/spec/priority", "there is high, normal, low"),
        ({"metadata": {"queue": "fast"}}, 422, "/metadata/queue", "there is default"),
    ],
)
def test_bad_values_name_field_value_and_what_is_allowed(
    ann: Client, changes: dict[str, Any], status: int, pointer: str, says: str
) -> None:
    answer = post(ann, compact(**changes))

    (error,) = answer.json()["errors"]
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert error["pointer"] == pointer
    assert says in error["detail"]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        (b'{"a": ', JSON, 400, "bad_json"),
        (b'{"a": "\xff"}', JSON, 400, "bad_utf8"),
        (b"[" * 10_000, JSON, 400, "too_deep"),
        (b"a: &a [1]\nb: [*a, *a]", "application/yaml", 400, "yaml_feature"),
        (b"a: [", "application/yaml", 400, "bad_yaml"),
        (b"[]", JSON, 422, "not_a_mapping"),
        (b"null", JSON, 422, "not_a_mapping"),
        (b"x" * (2**20 + 1), JSON, 413, "too_large"),
        (b"a=b", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (json.dumps(compact(run={"image": "a", "args": ["\x00"]})).encode(), JSON, 400, "bad_character"),
    ],
)
def test_bodies_that_cannot_be_read_are_refused_and_nothing_is_stored(
    ann: Client, body: bytes, kind: str, status: int, code: str
) -> None:
    answer = ann.post(JOBS, body, content_type=kind)

    codes = {answer.json()["code"], *(error["code"] for error in answer.json()["errors"])}
    assert answer.status_code == status
    assert code in codes
    assert not Job.objects.exists()


def test_a_gang_larger_than_any_cluster_is_accepted_and_says_that_it_can_never_start(ann: Client) -> None:
    job = submit(ann, shape="gang", tasks=10_000, gpus="h100:8")
    cycle.turn(NOW)

    reason = ann.get(f"{JOBS}/{job['id']}").json()["reason"]

    assert [warning["code"] for warning in job["warnings"]] == ["EXCEEDS_MAX"]
    assert (reason["code"], reason["permanent"]) == ("EXCEEDS_MAX", True)
    assert "needs 80000 h100" in reason["summary"]


def test_a_name_of_200_letters_is_kept_whole(ann: Client) -> None:
    assert submit(ann, name="n" * 200)["name"] == "n" * 200


def test_a_member_of_one_team_cannot_name_another(ann: Client) -> None:
    hidden, unknown = (post(ann, compact(team=team)) for team in ("cv", "xx"))

    assert (hidden.status_code, unknown.status_code) == (404, 404)
    assert hidden.json()["detail"].replace("cv", "xx") == unknown.json()["detail"]
    assert not Job.objects.exists()


def test_nothing_of_a_job_is_there_for_another_team(lab: Lab, ann: Client) -> None:
    job = submit(ann, metadata={"external_id": "secret-1"})
    carl = client(lab.carl)
    address = f"{JOBS}/{job['id']}"

    reads = [carl.get(f"{address}{part}").status_code for part in ("", *READS)]
    writes = [carl.post(f"{address}:{verb}").status_code for verb in ("cancel", "hold", "release", "rerun")]
    patched = carl.patch(address, {"labels": {"a": "b"}}, content_type=JSON)

    assert set(reads + writes + [patched.status_code]) == {404}
    assert carl.get(f"{JOBS}?external_id=secret-1").json()["items"] == []
    assert Job.objects.get().labels == {}


READS = ("/explain", "/events", "/attempts", "/manifest", "/wait?timeout=0")


def test_scopes_of_a_token_narrow_what_it_may(lab: Lab) -> None:
    reads, quota = client(lab.ann, Scope.JOBS_READ), client(lab.ann, Scope.QUOTA_READ)
    job = submit(client(lab.ann, Scope.JOBS_WRITE))

    assert reads.get(f"{JOBS}/{job['id']}").status_code == 200
    assert post(reads, compact()).status_code == 403
    assert reads.post(f"{JOBS}/{job['id']}:cancel").status_code == 403
    assert quota.get(f"{JOBS}/{job['id']}").status_code == 404


@pytest.mark.django_db
def test_strangers_are_asked_who_they_are() -> None:
    wrong = Client(headers={"Authorization": "Bearer tg_wrong"})

    assert Client().get(JOBS).status_code == 401
    assert wrong.get(JOBS).json()["code"] == "token_unknown"
    assert wrong.get(f"{JOBS}/{uuid4()}/wait").status_code == 401


def test_a_list_is_filtered_paged_counted_and_slim(ann: Client) -> None:
    for number in range(3):
        submit(ann, name=f"n{number}", metadata={"labels": {"n": str(number)}})

    first = ann.get(f"{JOBS}?limit=2&count=exact&fields=name,state").json()
    second = ann.get(first["next"]).json()
    labelled = ann.get(f"{JOBS}?label=n:1").json()

    assert first["items"] == [{"name": "n2", "state": "queued"}, {"name": "n1", "state": "queued"}]
    assert first["count"] == 3
    assert [row["name"] for row in second["items"]] == ["n0"]
    assert [row["name"] for row in labelled["items"]] == ["n1"]


@pytest.mark.parametrize("query", ["stat=queued", "state=waiting", "fields=secret", "limit=0", "cursor=x", "label=a"])
def test_a_list_that_cannot_be_read_is_refused(ann: Client, query: str) -> None:
    assert ann.get(f"{JOBS}?{query}").status_code == 400


def test_a_list_takes_few_statements(ann: Client) -> None:
    for number in range(4):
        submit(ann, name=f"n{number}")

    with CaptureQueriesContext(connection) as captured:
        ann.get(JOBS)

    # One of them looks up the token.
    assert statements(captured) <= 6


def test_a_batch_answers_each_item(ann: Client) -> None:
    jobs = [compact(name="a"), compact(name="b", gpus="h100:0"), compact(name="c", team="cv")]

    answer = post(ann, {"jobs": jobs}, f"{JOBS}:batch").json()

    assert (answer["created"], answer["refused"]) == (1, 2)
    assert [item["error"] and item["error"]["status"] for item in answer["items"]] == [None, 422, 404]
    assert answer["items"][1]["error"]["errors"][0]["pointer"] == "/spec/gpus/count"
    assert Job.objects.count() == 1


def test_a_batch_of_more_than_500_or_of_no_list_is_refused(ann: Client) -> None:
    many = post(ann, {"jobs": [compact()] * 501}, f"{JOBS}:batch")
    none = post(ann, {"job": []}, f"{JOBS}:batch")

    assert (many.status_code, none.status_code) == (422, 422)
    assert many.json()["errors"][0]["detail"] == "a batch has at most 500 jobs, not 501"


def test_verbs_move_a_job(ann: Client) -> None:
    job = submit(ann)
    address = f"{JOBS}/{job['id']}"

    states = [ann.post(f"{address}:{verb}").json()["state"] for verb in ("hold", "release", "cancel", "cancel")]
    again = ann.post(f"{address}:rerun")
    late = ann.post(f"{address}:hold")

    assert states == ["held", "queued", "cancelled", "cancelled"]
    assert (again.status_code, again.json()["cloned_from"]) == (201, job["id"])
    assert (late.status_code, late.json()["code"]) == (409, "already_ended")
    assert ann.post(f"{JOBS}/{uuid4()}:cancel").status_code == 404
    assert ann.post(f"{JOBS}/nonsense:cancel").status_code == 404


def test_priority_and_labels_are_changed_together_or_not_at_all(ann: Client) -> None:
    job = submit(ann)
    address = f"{JOBS}/{job['id']}"

    good = ann.patch(address, {"priority": "high", "labels": {"a": "b"}}, content_type=JSON)
    bad = ann.patch(address, {"priority": "urgent", "labels": {"c": "d"}}, content_type=JSON)
    moved = ann.patch(address, {"team": "cv"}, content_type=JSON)

    assert (good.json()["priority"], good.json()["labels"]) == ("high", {"a": "b"})
    assert (bad.status_code, bad.json()["errors"][0]["allowed"]) == (422, ["high", "normal", "low"])
    assert moved.status_code == 422
    assert ann.get(address).json()["labels"] == {"a": "b"}
    assert AuditEntry.objects.filter(action="job.priority").count() == 1


def test_many_are_cancelled_by_name_or_filter_after_a_dry_run(ann: Client) -> None:
    ids = [submit(ann, name=f"n{number}")["id"] for number in range(3)]

    dry = post(ann, {"filter": {"q": "n"}, "dry_run": True}, f"{JOBS}:cancel").json()
    named = post(ann, {"ids": [ids[0], str(uuid4())]}, f"{JOBS}:cancel").json()
    found = post(ann, {"filter": {"state": "queued"}}, f"{JOBS}:cancel").json()

    assert (dry["matched"], dry["dry_run"], len(dry["items"])) == (3, True, 3)
    assert [item["error"] and item["error"]["status"] for item in named["items"]] == [None, 404]
    assert found["matched"] == 2
    assert ann.get(f"{JOBS}:count").json() == {"group_by": "state", "counts": {"cancelled": 3}}


@pytest.mark.parametrize("body", [{}, {"ids": [], "filter": {}}, {"filter": {"stat": "x"}}, {"ids": ["x"]}])
def test_cancelling_many_needs_to_be_told_which(ann: Client, body: dict[str, Any]) -> None:
    assert post(ann, body, f"{JOBS}:cancel").status_code in {400, 422}


def test_history_and_manifest(ann: Client) -> None:
    job = submit(ann, tasks=2)
    cycle.turn(NOW)
    address = f"{JOBS}/{job['id']}"

    events = ann.get(f"{address}/events").json()["items"]
    (attempt,) = ann.get(f"{address}/attempts").json()["items"]
    (work,) = ann.get(f"{address}/manifest").json()["items"]
    explained = ann.get(f"{address}/explain").json()

    assert events[0]["type"] == "submitted"
    assert len(attempt["waves"][0]["tasks"]) == 2
    assert work["kind"] == "Job"
    assert (explained["flavor"], explained["needs"]) == ("h100", 1)


def test_waiting_answers_when_the_job_has_ended(ann: Client) -> None:
    job = submit(ann)
    address = f"{JOBS}/{job['id']}/wait"

    early = ann.get(f"{address}?timeout=0")
    Job.objects.update(state=JobState.CANCELLED, ended_at=NOW, waiting_tasks=0, ready=False)
    ended = ann.get(f"{address}?until=terminal&timeout=5")
    wrong = ann.get(f"{address}?until=noon")

    assert (early.status_code, early.content) == (204, b"")
    assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
    assert wrong.status_code == 422


@pytest.mark.django_db(transaction=True)
def test_waiting_sees_a_change_that_comes_later_and_holds_no_connection_meanwhile() -> None:
    lab = Lab()
    job = lab.submit()
    browser = AsyncClient()
    browser.force_login(lab.ann.user)
    connection.close()

    async def walk() -> tuple[int, int]:
        others = await asyncio.to_thread(sessions)
        asked = asyncio.create_task(browser.get(f"{JOBS}/{job.uid}/wait?timeout=60"))
        busy, deadline = others + 1, time.monotonic() + 50
        while busy > others and time.monotonic() < deadline:
            await asyncio.sleep(0.6)  # it looks now and then; between two looks it rests
            busy = await asyncio.to_thread(sessions)
        await asyncio.to_thread(end)
        answer = await asked
        return answer.status_code, max(0, busy - others)

    def sessions() -> int:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            count = int(cursor.fetchone()[0])
        connection.close()
        return count

    def end() -> None:
        Job.objects.update(state=JobState.CANCELLED, ended_at=NOW, waiting_tasks=0, ready=False)
        connection.close()

    assert asyncio.run(walk()) == (200, 0)


def test_every_middleware_can_wait_without_a_thread() -> None:
    kinds = [import_string(name) for name in settings.MIDDLEWARE]

    assert [kind for kind in kinds if not getattr(kind, "async_capable", False)] == []


def test_an_elastic_job_tells_its_bounds_and_what_it_has_now(lab: Lab, ann: Client) -> None:
    told = submit(ann, shape="elastic", tasks={"min": 2, "max": 6}, gpus="h100:2")
    job = Job.objects.get(uid=told["id"])
    base = lab.start(job, *lab.nodes[:2])
    lab.grow(base, lab.nodes[2], running=False)

    shown = ann.get(f"{JOBS}/{job.uid}").json()
    listed = ann.get(JOBS).json()["items"][0]
    waves = ann.get(f"{JOBS}/{job.uid}/attempts").json()["items"][0]["waves"]

    assert (told["tasks"], told["units"], told["groups"][0]["max_tasks"]) == (2, 4, 6)
    assert told["elastic"] | {"summary": ""} == {
        "min": 2,
        "max": 6,
        "running": 0,
        "starting": 0,
        "grows_from": None,
        "stalled": "",
        "summary": "",
    }
    assert shown["elastic"] == listed["elastic"]
    assert (shown["elastic"]["running"], shown["elastic"]["starting"]) == (2, 1)
    assert shown["elastic"]["summary"] == (
        "Runs with 2 of at most 6 tasks, minimum 2; 1 more starts; "
        "up to 3 more when GPUs are free that nobody else needs."
    )
    assert [(wave["number"], wave["surplus"], wave["units"]) for wave in waves] == [(2, True, 2), (1, False, 4)]
    assert submit(ann, name="gang", shape="gang")["elastic"] is None
