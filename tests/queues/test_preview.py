"""What edits of quotas would change, told before they are made."""

import pytest

from queues import queries
from queues.models import Job
from queues.queries.rows.shares import PreviewJob
from tenants.errors import DomainError, NotAllowed
from tenants.models import AuditEntry, Quota
from tenants.services import QuotaEdit
from tests.queues.api.test_jobs import client, post
from tests.queues.lab import MINUTE, NOW, Lab
from tests.queues.test_views_pages import browser


@pytest.fixture
def full(lab: Lab) -> Lab:
    """Let cv (8 guaranteed) run on 24 of 32, firm for two hours, and nlp (16) wait for 16."""
    for number in range(3):
        job = lab.submit(lab.carl, name=f"vision-{number}", team="cv", gpus="h100:8", time_limit="2h", grace="0s")
        lab.start(job, lab.nodes[number])
    return lab


def edit(team: str, **values: int | None) -> QuotaEdit:
    return QuotaEdit(team=team, flavor="h100", **values)  # type: ignore[arg-type]


def names(rows: tuple[PreviewJob, ...]) -> list[tuple[str, int]]:
    return [(row.name, row.count) for row in rows]


def test_a_cut_tells_what_becomes_borrowed_and_writes_nothing(full: Lab) -> None:
    found = queries.preview(full.root, [edit("cv", guaranteed=0)], now=NOW + MINUTE)

    # 16 of 24 were borrowed already, of the newest two; now all 24 are.
    assert names(found.borrowed) == [("vision-0", 8)]
    assert Quota.objects.get(team=full.cv).guaranteed == 8
    assert not AuditEntry.objects.filter(action__startswith="quota").exists()


def test_more_quota_lets_a_job_reclaim(full: Lab) -> None:
    full.submit(name="waits", gpus="h100:8", shape="gang", tasks=2, borrow=False)
    Quota.objects.filter(team=full.nlp).update(guaranteed=8)

    found = queries.preview(full.root, [edit("nlp", guaranteed=16)], now=NOW + MINUTE)

    assert sum(count for _, count in names(found.reclaimed)) == 8
    assert found.impossible == 0


def test_a_limit_lets_a_job_start_later_or_never(full: Lab) -> None:
    full.submit(name="waits", gpus="h100:8", time_limit="1h", grace="0s")
    Quota.objects.filter(team=full.nlp).update(guaranteed=0)

    found = queries.preview(full.root, [edit("nlp", guaranteed=0, borrow_limit=0)], now=NOW + MINUTE)

    assert names(found.starts_no_more) == [("waits", 1)]


def test_what_making_the_edit_would_refuse_is_refused(full: Lab) -> None:
    with pytest.raises(DomainError):
        queries.preview(full.root, [edit("cv", guaranteed=400)], now=NOW)
    with pytest.raises(NotAllowed):
        queries.preview(full.lea, [edit("nlp", guaranteed=4)], now=NOW)


def test_a_preview_over_http(full: Lab) -> None:
    body = {"edits": [{"team": "cv", "flavor": "h100", "guaranteed": 0}]}

    answer = post(client(full.root), body, "/api/v1/quota-changes/preview")

    assert answer.status_code == 200, answer.content
    assert [row["name"] for row in answer.json()["borrowed"]] == ["vision-0"]
    assert Quota.objects.get(team=full.cv).guaranteed == 8


def test_the_page_shows_the_effects_and_saves_what_was_shown(full: Lab) -> None:
    root = browser(full.root)
    fields = {"flavor": "h100", "guaranteed": "0", "borrow_limit": "", "lend_limit": ""}
    fields["version"] = str(Quota.objects.get(team=full.cv).version)

    shown = root.post("/teams/cv/quota/preview", fields).content.decode()
    before = Quota.objects.get(team=full.cv).guaranteed
    root.post("/teams/cv/quota", fields)

    assert "Would become borrowed" in shown
    assert "vision-0" in shown
    assert (before, Quota.objects.get(team=full.cv).guaranteed) == (8, 0)
    assert Job.objects.count() == 3
