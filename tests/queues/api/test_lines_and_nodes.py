"""Queues, priority classes, the order, machines and decisions over HTTP."""

from typing import Any

import pytest
from django.test import Client

from queues import cycle
from queues.models import ClusterState, Decision, PriorityClass, Queue
from tenants.models import AuditEntry
from tests.queues.api.test_jobs import JSON, client, post, submit
from tests.queues.lab import NOW, Lab, node

QUEUE = "/api/v1/queues/nlp/default"


def patch(by: Client, body: object, match: str | None = '"v1"', address: str = QUEUE) -> Any:  # noqa: ANN401  an answer
    headers = {"If-Match": match} if match is not None else {}
    return by.patch(address, body, content_type=JSON, headers=headers)


def test_a_lead_changes_a_queue_with_its_etag(lab: Lab) -> None:
    lea = client(lab.lea)
    before = lea.get(QUEUE)

    changed = patch(lea, {"max_time_limit": "48h", "default_time_limit": None, "order": "fifo"}, before["ETag"])
    stale = patch(lea, {"order": "fair_users"}, before["ETag"])
    blind = patch(lea, {"order": "fair_users"}, None)

    assert (changed.status_code, changed["ETag"]) == (200, '"v2"')
    assert (changed.json()["max_time_limit"], changed.json()["default_time_limit"]) == ("2d", None)
    assert (stale.status_code, blind.status_code) == (412, 428)
    after = AuditEntry.objects.get(action="queue.update").after
    assert after is not None
    assert after["order"] == "fifo"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"order": "random"}, "/order"),
        ({"max_grace": "2h"}, "/max_grace"),
        ({"per_user_limit": -1}, "/per_user_limit"),
        ({"start_retries": "3"}, "/start_retries"),
        ({"hold_after": "soon"}, "/hold_after"),
        ({"preempt_within_team": "always"}, "/preempt_within_team"),
        ({"limit_needed_to_borrow": "yes please"}, "/limit_needed_to_borrow"),
        ({"max_time_limit": "1h", "default_time_limit": "2h"}, "/default_time_limit"),
        ({"max_tme_limit": "1h"}, "/max_tme_limit"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(lab: Lab, body: dict[str, Any], pointer: str) -> None:
    answer = patch(client(lab.lea), body)

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert Queue.objects.get(team=lab.nlp).version == 1


def test_members_and_leads_of_others_do_not_change_a_queue(lab: Lab) -> None:
    member, stranger = patch(client(lab.ann), {"paused": True}), patch(client(lab.carl), {"paused": True})

    assert (member.status_code, stranger.status_code) == (403, 404)


def test_only_admins_raise_the_highest_priority_of_a_queue(lab: Lab) -> None:
    lead, admin = (patch(client(who), {"max_priority": 0}) for who in (lab.lea, lab.root))

    assert (lead.status_code, admin.status_code) == (403, 200)


def test_only_admins_say_how_long_work_may_not_be_recalled(lab: Lab) -> None:
    lead, admin = (patch(client(who), {"min_runtime": "30m"}) for who in (lab.lea, lab.root))

    assert (lead.status_code, admin.status_code) == (403, 200)
    assert admin.json()["min_runtime"] == "30m"


def test_a_lead_says_who_may_take_from_whom_within_the_team(lab: Lab) -> None:
    answer = patch(client(lab.lea), {"preempt_within_team": "lower_priority", "limit_needed_to_borrow": True})

    assert (answer.status_code, answer.json()["preempt_within_team"]) == (200, "lower_priority")
    assert Queue.objects.get(team=lab.nlp).limit_needed_to_borrow


def test_a_queue_is_made_and_takes_jobs(lab: Lab) -> None:
    lea = client(lab.lea)

    made = post(
        lea, {"team": "nlp", "name": "night", "max_time_limit": "12h", "default_time_limit": "1h"}, "/api/v1/queues"
    )
    twice = post(lea, {"team": "nlp", "name": "night"}, "/api/v1/queues")
    odd = post(lea, {"team": "nlp", "name": "Night Shift"}, "/api/v1/queues")
    job = submit(client(lab.ann), metadata={"queue": "night"})

    assert (made.status_code, made["Location"]) == (201, "/api/v1/queues/nlp/night")
    assert (twice.status_code, odd.status_code) == (409, 422)
    assert (job["queue"], job["time_limit"]) == ("night", "1h")
    assert [row["name"] for row in lea.get("/api/v1/queues").json()["items"]] == ["default", "night"]


def test_a_paused_queue_says_so(lab: Lab) -> None:
    lea = client(lab.lea)
    job = submit(client(lab.ann))

    paused = patch(lea, {"paused": True})
    cycle.turn(NOW)
    reason = lea.get(f"/api/v1/jobs/{job['id']}").json()["reason"]

    assert paused.json()["paused_at"] is not None
    assert reason["code"] == "QUEUE_PAUSED"


def test_an_admin_makes_and_changes_a_priority_class_and_waiting_jobs_move_with_it(lab: Lab) -> None:
    root, address = client(lab.root), "/api/v1/priority-classes/high"
    job = submit(client(lab.ann), priority="high")

    changed = root.put(address, {"value": 5, "preemptible": False}, content_type=JSON, headers={"If-Match": '"v1"'})
    stale = root.put(address, {"value": 6}, content_type=JSON, headers={"If-Match": '"v1"'})
    new = root.put("/api/v1/priority-classes/top", {"value": 9}, content_type=JSON, headers={"If-Match": '"v0"'})
    member = client(lab.ann).put(address, {"value": 7}, content_type=JSON, headers={"If-Match": "*"})

    stored = lab.nlp.jobs.get(uid=job["id"])
    assert (changed.status_code, stale.status_code, new.status_code, member.status_code) == (200, 412, 200, 403)
    assert (stored.priority, stored.preemptible, stored.job_class.priority) == (5, False, 5)
    assert list(PriorityClass.objects.order_by("-value").values_list("name", flat=True))[:2] == ["top", "high"]


def test_the_order_of_a_gpu_type(lab: Lab) -> None:
    ann = client(lab.ann)
    submit(ann, name="first")
    submit(client(lab.carl), name="hidden", team="cv")

    order = ann.get("/api/v1/queue?flavor=h100").json()

    assert (order["free"], order["waiting_jobs"]) == (32, 2)
    assert {row["job"]["name"] if row["job"] else None for row in order["rows"]} == {"first", None}
    assert ann.get("/api/v1/queue?flavor=h10").status_code == 422
    assert ann.get("/api/v1/queue").status_code == 422


def test_machines_and_what_is_on_them(lab: Lab) -> None:
    ann = client(lab.ann)
    job = lab.submit(gpus="h100:8")
    lab.start(job, lab.nodes[0])
    lab.start(lab.submit(lab.carl, team="cv", name="hidden"), lab.nodes[1])

    page = ann.get("/api/v1/nodes?flavor=h100&limit=3").json()
    node = ann.get("/api/v1/nodes/h0").json()
    cells = {row["name"]: row["tasks"] for row in ann.get("/api/v1/allocation?flavor=h100").json()["items"]}

    assert [row["name"] for row in page["items"]] == ["h0", "h1", "h2"]
    assert [row["name"] for row in ann.get(page["next"]).json()["items"]] == ["h3"]
    assert (node["node"]["used"], node["node"]["free"], node["node"]["tasks"][0]["job"]) == (8, 0, str(job.uid))
    assert (cells["h1"][0]["units"], cells["h1"][0]["job"], cells["h1"][0]["team"]) == (1, None, "")
    assert ann.get("/api/v1/nodes/h99").status_code == 404
    assert ann.get("/api/v1/nodes?state=broken").status_code == 400


def test_decisions_are_shown_to_admins_and_auditors(lab: Lab) -> None:
    submit(client(lab.ann))
    cycle.turn(NOW)
    number = Decision.objects.get().id

    page = client(lab.auditor).get("/api/v1/decisions?busy=true").json()
    one = client(lab.root).get(f"/api/v1/decisions/{number}").json()

    assert [row["cycle"] for row in page["items"]] == [number]
    assert (one["decision"]["admissions"], one["admitted"][0]["team"]) == (1, "nlp")
    assert client(lab.ann).get("/api/v1/decisions").status_code == 403
    assert client(lab.root).get("/api/v1/decisions/99999999999999999999").status_code == 404


def test_clusters_say_whether_they_answer_and_what_they_have(lab: Lab) -> None:
    away = ClusterState.objects.create(name="west", unreachable_since=NOW, away=True, kubernetes_version="v1.37.2")
    node(away, "h0", lab.h100)

    items = client(lab.ann).get("/api/v1/clusters").json()["items"]

    assert [(row["name"], row["state"], row["nodes"], row["usable_nodes"], row["units"]) for row in items] == [
        ("default", "ready", 6, 6, 48),
        ("west", "away", 1, 0, 8),
    ]
