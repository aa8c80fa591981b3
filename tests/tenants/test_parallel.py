import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import connection

from tenants import queries, services
from tenants.errors import Conflict, DomainError, Invalid, Stale
from tenants.models import AuditEntry, Flavor, Quota, Team
from tests.tenants.conftest import NOW, Site, by, guarantee

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(works: list[Callable[[], object]], *, threads: int = 8) -> list[object]:
    """Run works in threads that start together; what one raised stands in its place."""
    together = threading.Barrier(threads)

    def run(mine: list[tuple[int, Callable[[], object]]]) -> list[tuple[int, object]]:
        together.wait(60)
        done: list[tuple[int, object]] = []
        try:
            for number, work in mine:
                try:
                    done.append((number, work()))
                except DomainError as error:
                    done.append((number, error))
        finally:
            connection.close()
        return done

    numbered = list(enumerate(works))
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(run, [numbered[start::threads] for start in range(threads)])
    return [result for _, result in sorted((pair for part in parts for pair in part), key=lambda pair: pair[0])]


def test_fifty_parallel_transfers_keep_the_sum(site: Site) -> None:
    Flavor.objects.create(name="t4", installed=64, usable=64, created_at=NOW)
    teams = ("nlp", "vision", "ops")
    for flavor in ("h100", "t4"):
        for team in teams:
            edit = services.QuotaEdit(team=team, flavor=flavor, guaranteed=20)
            services.set_quotas(by=by(site.admin), now=NOW, edits=[edit])

    def transfer(number: int) -> Callable[[], object]:
        giver, taker = teams[number % 3], teams[(number + 1) % 3]
        flavors = ("h100", "t4") if number % 2 else ("t4", "h100")

        def move() -> object:
            edits = []
            for flavor in flavors:
                have = dict(Quota.objects.filter(flavor__name=flavor).values_list("team__name", "guaranteed"))
                version = dict(Quota.objects.filter(flavor__name=flavor).values_list("team__name", "version"))
                edits += [
                    services.QuotaEdit(
                        team=giver, flavor=flavor, guaranteed=max(0, have[giver] - 1), version=version[giver]
                    ),
                    services.QuotaEdit(
                        team=taker,
                        flavor=flavor,
                        guaranteed=have[taker] + min(1, have[giver]),
                        version=version[taker],
                    ),
                ]
            return services.set_quotas(by=by(site.admin), now=NOW, edits=edits)

        return move

    results = at_once([transfer(number) for number in range(50)])

    assert {type(each) for each in results} <= {services.QuotaResult, Stale}
    assert sum(isinstance(each, services.QuotaResult) for each in results) >= 1
    assert [(each.flavor, each.guaranteed) for each in queries.totals()] == [("h100", 60), ("t4", 60)]


def test_parallel_grants_never_exceed_what_is_installed(site: Site) -> None:
    for number in range(16):
        Team.objects.create(name=f"t{number}", created_at=NOW)

    results = at_once([partial(guarantee, site, f"t{number}", 10) for number in range(16)])

    assert sum(isinstance(each, services.QuotaResult) for each in results) == 6
    assert sum(isinstance(each, Invalid) for each in results) == 10
    assert queries.totals()[0].guaranteed == 60


def test_of_parallel_edits_of_one_version_one_wins(site: Site) -> None:
    def rename(number: int) -> Callable[[], object]:
        return lambda: services.update_team(
            by=by(site.lead), now=NOW, team="nlp", changes={"title": f"title {number}"}, version=1
        )

    results = at_once([rename(number) for number in range(8)])

    assert sum(isinstance(each, Team) for each in results) == 1
    assert sum(isinstance(each, Stale) for each in results) == 7
    assert AuditEntry.objects.filter(action="team.update").count() == 1


def test_two_parallel_moves_never_make_a_circle(site: Site) -> None:
    for number in range(4):
        Team.objects.create(name=f"a{number}", created_at=NOW)

    def move(child: int, parent: int) -> Callable[[], object]:
        return lambda: services.update_team(
            by=by(site.admin), now=NOW, team=f"a{child}", changes={"parent": f"a{parent}"}
        )

    at_once([move(child, (child + step) % 4) for step in (1, 2, 3) for child in range(4)], threads=6)

    parents = dict(Team.objects.values_list("id", "parent_id"))
    for team in parents:
        seen = set()
        above: int | None = team
        while above is not None:
            assert above not in seen
            seen.add(above)
            above = parents[above]


def test_parallel_first_edits_of_the_policy_count_both(site: Site) -> None:
    results = at_once(
        [
            lambda: services.edit_installation(by=by(site.admin), now=NOW, changes={"overcommit": True}),
            lambda: services.edit_installation(by=by(site.admin), now=NOW, changes={"aging_cap": 5}),
        ],
        threads=2,
    )

    policy = queries.installation()
    assert not any(isinstance(each, DomainError) for each in results)
    assert (policy.overcommit, policy.aging_cap, policy.version) == (True, 5, 2)


def test_a_name_taken_in_parallel_is_a_conflict(site: Site) -> None:
    results = at_once(
        [lambda: services.create_team(by=by(site.admin), now=NOW, name="audio") for _ in range(6)], threads=6
    )

    assert sum(isinstance(each, Team) for each in results) == 1
    assert sum(isinstance(each, Conflict) for each in results) == 5
