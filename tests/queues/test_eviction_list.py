"""Who had to go for whom, as each side and those who look after the loop see it."""

from datetime import timedelta

import pytest

from queues import queries
from queues.admission.outcome import Eviction, Outcome
from queues.admission.world import Placed
from queues.apply import apply
from queues.models import Eviction as Stored
from queues.models import Job, Task, Wave
from queues.states import TaskState
from tenants.errors import NotFound
from tenants.models import Membership, Role
from tests.queues.api.test_jobs import client
from tests.queues.lab import MINUTE, NOW, Lab, member
from tests.queues.test_evictions import world
from tests.queues.test_views_pages import browser


@pytest.fixture
def recall(lab: Lab) -> tuple[Job, Job]:
    """Let a job of nlp take back 16 GPUs from one of cv that has run for an hour, with 30 s of grace used 12 s."""
    victim = lab.submit(lab.carl, name="borrower", team="cv", shape="gang", tasks=2, gpus="h100:8", grace="30s")
    wave = lab.start(victim, *lab.nodes[:2])
    claimant = lab.submit(name="lenderjob", gpus="h100:8")
    placed = tuple(Placed(group=0, node=node.id, tasks=1) for node in lab.nodes[:2])
    now = NOW + 60 * MINUTE
    eviction = Eviction(attempt=wave.id, placed=placed, claim=7, job=claimant.id)
    apply(Outcome(evictions=(eviction,)), world(60), now=now, digest="d")
    Task.objects.filter(wave=wave).update(state=TaskState.STOPPED, ended_at=now + timedelta(seconds=12))
    return victim, claimant


def test_a_row_tells_both_sides_the_rule_and_the_cost(lab: Lab, recall: tuple[Job, Job]) -> None:
    victim, claimant = recall

    (row,) = queries.evictions(lab.root)

    assert (row.victim.job, row.victim.name, row.victim.team) == (victim.uid, "borrower", "cv")
    assert (row.claimant.job, row.claimant.name, row.claimant.team) == (claimant.uid, "lenderjob", "nlp")
    assert (row.rule, row.units, row.tasks, row.lost_hours) == ("guarantee", 16, 2, 16.0)
    assert (row.grace, row.grace_used) == (timedelta(seconds=30), timedelta(seconds=12))


def test_surplus_is_not_told_as_a_guarantee_that_was_lent(lab: Lab, recall: tuple[Job, Job]) -> None:
    Stored.objects.filter(wave__job=recall[0]).update(surplus=True)

    assert queries.evictions(lab.root)[0].summary == "surplus goes back to whoever needs its GPUs"


def test_while_a_task_leaves_the_grace_is_not_used_up(lab: Lab, recall: tuple[Job, Job]) -> None:
    task = Task.objects.filter(wave__job=recall[0]).latest("id")
    Task.objects.filter(id=task.id).update(state=TaskState.LEAVING, ended_at=None)

    assert queries.evictions(lab.root)[0].grace_used is None


@pytest.mark.usefixtures("recall")
def test_each_side_sees_itself_and_nothing_of_the_other(lab: Lab) -> None:
    (mine,), (theirs,) = queries.evictions(lab.ann), queries.evictions(lab.carl)

    assert (mine.claimant.name, mine.victim.job, mine.victim.team) == ("lenderjob", None, "")
    assert (theirs.victim.name, theirs.claimant.job, theirs.claimant.name) == ("borrower", None, "")
    assert queries.evictions(member("bo", lab.bio)) == ()
    with pytest.raises(NotFound):
        queries.evictions(lab.ann, team="cv")


@pytest.mark.parametrize("who", ["carl", "ann"])
def test_no_page_and_no_answer_names_the_other_side(lab: Lab, recall: tuple[Job, Job], who: str) -> None:
    by, own, other = (lab.carl, 0, recall[1]) if who == "carl" else (lab.ann, 1, recall[0])
    uid, team = recall[own].uid, recall[own].team.name
    api, pages = client(by), browser(by)

    told = [api.get(f"/api/v1/jobs/{uid}{what}").content.decode() for what in ("", "/events", "/attempts", "/explain")]
    told += [api.get("/api/v1/evictions").content.decode()]
    told += [pages.get(f"/jobs/{uid}?tab={tab}").content.decode() for tab in ("tasks", "events")]
    told += [pages.get(page).content.decode() for page in ("/", f"/teams/{team}/evictions", f"/teams/{team}")]

    assert not [text for text in told if other.name in text or str(other.uid) in text]
    assert "another team's job" in told[-2]


def test_who_sees_both_sides_reads_their_names_in_the_events(lab: Lab, recall: tuple[Job, Job]) -> None:
    victim, claimant = recall

    evicted = next(row for row in queries.events(lab.root, victim.uid) if row.type == "evicted")
    reclaims = next(row for row in queries.events(lab.root, claimant.uid) if row.type == "reclaims")

    assert evicted.summary.startswith(
        "Reclaimed for lenderjob of nlp: its guarantee was lent and is taken back. 16 GPUs"
    )
    assert reclaims.summary == "Reclaims 16 GPUs from 1 job: borrower of cv"
    assert reclaims.details["victims"] == [{"job": str(victim.uid), "units": 16}]


def test_the_audit_names_both_sides_rule_and_cost_to_who_may_see_both(lab: Lab, recall: tuple[Job, Job]) -> None:
    victim, claimant = recall
    path = "/api/v1/audit?action=job.evict"

    (entry,) = client(lab.auditor).get(path).json()["items"]

    assert entry["target"] == f"job {victim.uid} borrower"
    assert (entry["team"], entry["before"]["team"], entry["after"]["claimant_team"]) == ("ai", "cv", "nlp")
    assert entry["after"]["claimant"] == f"job {claimant.uid} lenderjob"
    cost = {"rule": "guarantee", "tasks": 2, "units": 16, "lost_unit_seconds": 57600, "grace_seconds": 30}
    assert entry["after"].items() >= cost.items()
    assert client(lab.lea).get(path).json()["items"] == []
    Membership.objects.create(team=lab.ai, user=lab.lea.user, role=Role.LEAD, created_at=NOW)
    assert [row["id"] for row in client(lab.lea).get(path).json()["items"]] == [entry["id"]]


def test_the_list_over_http_is_filtered_and_comes_in_pages(lab: Lab, recall: tuple[Job, Job]) -> None:
    api = client(lab.root)

    def ids(query: str) -> list[int]:
        return [row["id"] for row in api.get(f"/api/v1/evictions?{query}").json()["items"]]

    everything = ids("limit=1")
    assert len(everything) == 1
    assert ids(f"job={recall[0].uid}") == ids(f"job={recall[1].uid}") == ids("team=cv&rule=guarantee") == everything
    assert ids("rule=within team") == ids("team=bio") == ids("at__gte=2026-11-29T13:00:01Z") == []
    assert api.get("/api/v1/evictions?rule=whim").status_code == 400
    assert api.get("/api/v1/evictions").json()["items"][0]["grace_used"] == "12s"


@pytest.mark.usefixtures("recall")
def test_the_page_of_all_evictions_is_for_those_who_look_after_the_loop(lab: Lab) -> None:
    assert "borrower" in browser(lab.auditor).get("/admin/evictions").content.decode()
    assert browser(lab.lea).get("/admin/evictions").status_code in {403, 404}


def test_a_job_page_shows_what_it_had_to_go_for(lab: Lab, recall: tuple[Job, Job]) -> None:
    text = browser(lab.root).get(f"/jobs/{recall[0].uid}").content.decode()

    assert "16.0" in text
    assert f"/jobs/{recall[1].uid}" in text


def test_the_queries_of_the_list_do_not_grow_with_its_rows(
    lab: Lab, recall: tuple[Job, Job], django_assert_num_queries: object
) -> None:
    row = Wave.objects.get(job=recall[0]).evictions.get()
    for _ in range(5):
        row.pk = None
        row.save()

    with django_assert_num_queries(3):  # type: ignore[operator]
        assert len(queries.evictions(lab.root)) == 6
