"""Many teams, people and classes wait: what asks for the order reads all of their lines in a few statements."""

from itertools import islice

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from queues import services, snapshot
from queues.admission.world import Waiting
from queues.queries.bounds import bound_of
from tenants.models import GlobalRole, Quota, User
from tenants.permissions import Actor
from tests.queues.crowd import copy, copy_each
from tests.queues.lab import MINUTE, NOW, Lab, compact, team

ASKED = ["/queue", "/jobs/{}", "/api/v1/jobs/{}", "/api/v1/jobs/{}/explain"]


def crowd(lab: Lab, teams: int, *, jobs: int = 8) -> None:
    """Let so many teams wait, each with lines of two people and two classes."""
    lead = Actor(user=User.objects.create_user("boss", global_role=GlobalRole.ADMIN))
    names = [f"team{number:02}" for number in range(teams)]
    for number, name in enumerate(names):
        Quota.objects.create(team=team(name, parent=lab.ai), flavor=lab.h100, guaranteed=number % 3)
    specs = [compact(team=name, gpus=gpus) for name in names for gpus in ("h100:1", "h100:2")]
    done = [services.submit_batch(specs=specs, by=by, now=NOW) for by in (lab.root, lead)]
    copy_each([row.job for rows in done for row in rows if isinstance(row, services.Submitted)], jobs)


def asked(client: Client, address: str) -> list[str]:
    client.get(address)
    with CaptureQueriesContext(connection) as queries:
        response = client.get(address)
    assert response.status_code == 200
    return [query["sql"][:120] for query in queries]


def test_statements_do_not_grow_with_teams_people_and_classes(lab: Lab) -> None:
    client = Client()
    client.force_login(lab.root.user)
    job = lab.submit(lab.carl, team="cv", gpus="h100:8", now=NOW + 60 * MINUTE)
    few = {address: asked(client, address.format(job.uid)) for address in ASKED}

    crowd(lab, 20)
    many = {address: asked(client, address.format(job.uid)) for address in ASKED}

    # A lot or two for the order, and for the bound one each time that the lines are followed further.
    grown = {address: (len(few[address]), len(many[address])) for address in ASKED}
    assert all(more <= less + 5 for less, more in grown.values()), grown


def lines(*, expect: bool, each: int) -> tuple[dict[tuple[int, int], list[Waiting]], int]:
    """Return the first further jobs of every line, and in how many statements they were read."""
    with snapshot.load(NOW) as (world, heads):
        firsts = [head for row in world.classes for head in heads.users(row.id)]
        with CaptureQueriesContext(connection) as queries:
            if expect:
                heads.expect(firsts)
            found = {
                (head.job_class, head.user): list(islice(heads.after(head.job_class, head.user, head), each))
                for head in firsts
            }
    return found, len(queries)


@pytest.mark.parametrize("each", [1, 5, 50])
def test_lines_that_are_expected_are_the_same_in_far_fewer_statements(lab: Lab, each: int) -> None:
    crowd(lab, 10, jobs=60)
    lab.submit()

    alone, statements = lines(expect=False, each=each)
    together, lots = lines(expect=True, each=each)

    assert together == alone
    assert statements >= len(alone) == 41
    assert lots <= 5


def test_a_line_is_followed_again_without_being_read_again(lab: Lab) -> None:
    job = lab.submit()
    copy(job, 40)
    with snapshot.load(NOW) as (world, heads):
        (first,) = heads.users(world.classes[0].id)
        once = list(heads.after(first.job_class, first.user, first))

        with CaptureQueriesContext(connection) as queries:
            again = list(heads.after(first.job_class, first.user, first))
            behind = list(heads.after(first.job_class, first.user, once[9]))

    assert (len(once), again, behind) == (40, once, once[10:])
    assert len(queries) == 0


def test_no_more_is_read_of_lines_that_are_expected_than_a_lot(lab: Lab) -> None:
    crowd(lab, 5, jobs=200)

    with snapshot.load(NOW) as (world, heads):
        firsts = [head for row in world.classes for head in heads.users(row.id)]
        read = heads.rows
        heads.expect(firsts)
        next(heads.after(firsts[0].job_class, firsts[0].user, firsts[0]))
        few = heads.rows - read

    assert few <= 512


def test_a_bound_follows_the_lines_before_it_in_a_few_statements(lab: Lab) -> None:
    crowd(lab, 10, jobs=20)
    job = lab.submit(lab.carl, team="cv", now=NOW + 60 * MINUTE)

    with snapshot.load(NOW + 60 * MINUTE) as seen, CaptureQueriesContext(connection) as queries:
        found = bound_of(job, seen, lab.h100.id, "h100")

    # cv is inside its guarantee of eight units, and whoever waits for an hour holds before it: all 40 lines of 21 jobs.
    assert found is not None
    assert (found.standing, found.before) == ("guaranteed", 840)
    assert len(queries) <= 5
