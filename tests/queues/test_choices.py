"""What a spec may name is kept between submissions, and every change of it takes effect at once."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queues import services
from queues.models import Node, PriorityClass, Queue
from tenants.errors import DomainError
from tenants.models import Flavor, Membership, Quota, Role, Team
from tests.queues.lab import NOW, Lab, compact, team

KEPT = ("tenants_flavor", "tenants_team", "tenants_quota", "queues_queue", "queues_priorityclass", "queues_node")


def outcome(lab: Lab, **changes: object) -> str:
    """Return what came of a submission by ann: a word for each thing that may differ."""
    try:
        done = services.submit(spec=compact(**changes), by=lab.ann, now=NOW)  # type: ignore[arg-type]
    except DomainError as error:
        return error.code
    words = [notice.code for notice in done.warnings]
    return " ".join([done.job.queue.name, str(done.job.time_limit), str(done.job.grace), *words])


def test_a_second_submission_asks_once_whether_something_changed(lab: Lab) -> None:
    lab.submit()

    with CaptureQueriesContext(connection) as queries:
        lab.submit()

    asked = [query["sql"] for query in queries if any(f"FROM {kept}" in query["sql"].replace('"', "") for kept in KEPT)]
    # The other one asks after writing whether a team has become a department meanwhile.
    assert len(asked) == 2, asked
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) <= 7


@pytest.mark.parametrize(
    ("change", "spec", "before", "after"),
    [
        (
            lambda lab: Queue.objects.create(team=lab.nlp, name="fast", created_at=NOW),
            {"metadata": {"queue": "fast"}},
            "",
            "fast",
        ),
        (
            lambda _: Queue.objects.filter(team__name="nlp").update(max_grace=timedelta(seconds=7)),
            {"grace": "9s"},
            "0:00:09",
            "0:00:07",
        ),
        (
            lambda _: Queue.objects.filter(team__name="nlp").update(default_time_limit=timedelta(hours=3)),
            {},
            "1 day",
            "3:00:00",
        ),
        (lambda _: PriorityClass.objects.create(name="urgent", value=9), {"priority": "urgent"}, "", "default"),
        (lambda _: Flavor.objects.filter(name="h100").update(name="h200"), {"gpus": "h200:1"}, "", "default"),
        (
            lambda _: Flavor.objects.filter(name="h100").update(installed=64),
            {"shape": "gang", "tasks": 5, "gpus": "h100:8"},
            "EXCEEDS_MAX",
            "default",
        ),
        (lambda _: Node.objects.update(units=4), {"gpus": "h100:8"}, "default", "EXCEEDS_NODE"),
        (lambda _: Node.objects.update(gone_at=NOW), {"gpus": "h100:8"}, "default", "EXCEEDS_NODE"),
        (
            lambda _: Quota.objects.update(borrow_limit=0, guaranteed=2),
            {"shape": "gang", "gpus": "h100:8"},
            "default",
            "EXCEEDS_MAX",
        ),
        (lambda lab: Membership.objects.filter(user=lab.ann.user).delete(), {}, "default", "team"),
        (
            lambda lab: Membership.objects.filter(user=lab.ann.user).update(role=Role.VIEWER),
            {},
            "default",
            "needs_submit_job",
        ),
        (
            lambda lab: Membership.objects.create(user=lab.ann.user, team=lab.life, role=Role.MEMBER, created_at=NOW),
            {"team": "bio"},
            "team",
            "default",
        ),
        (lambda lab: team("below", parent=lab.nlp), {}, "default", "invalid"),
        (lambda _: Team.objects.filter(name="nlp").update(name="words"), {"team": "words"}, "team", "default"),
    ],
    ids=[
        "queue",
        "grace",
        "limit",
        "priority",
        "kind",
        "installed",
        "units",
        "gone",
        "quota",
        "left",
        "role",
        "joined",
        "below",
        "name",
    ],
)
def test_what_has_changed_counts_at_once(
    lab: Lab, change: Callable[[Lab], object], spec: dict[str, object], before: str, after: str
) -> None:
    first = outcome(lab, **spec)

    change(lab)
    second = outcome(lab, **spec)

    assert before in first
    assert after in second
    assert first != second
