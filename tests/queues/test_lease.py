import time
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from queues import lease
from queues.lease import Lease, Lost
from queues.models import ClusterState

LASTS_SECONDS = 600.0


@pytest.fixture
def pair(db: None, monkeypatch: pytest.MonkeyPatch) -> tuple[Lease, Lease]:  # noqa: ARG001  asks for the database
    # No lease runs out because the machine stands still for a while.
    monkeypatch.setattr(lease, "LASTS_SECONDS", LASTS_SECONDS)
    return Lease("main"), Lease("main")


def row() -> ClusterState:
    return ClusterState.objects.get(name="main")


def let_it_run_out() -> None:
    ClusterState.objects.update(leads_until=timezone.now() - timedelta(seconds=1))


def test_of_two_the_first_holds_the_lease_and_keeps_it(pair: tuple[Lease, Lease]) -> None:
    first, second = pair

    took = (first.renew(), second.renew(), first.renew())

    assert took == (True, False, True)
    assert (first.mine, second.mine, row().leader) == (True, False, first.holder)


def test_a_lease_that_ran_out_goes_to_whoever_asks(pair: tuple[Lease, Lease]) -> None:
    first, second = pair
    first.renew()

    let_it_run_out()
    took = (second.renew(), first.renew())

    assert took == (True, False)
    assert (first.mine, second.mine) == (False, True)


def test_a_lease_that_is_given_up_is_free_at_once(pair: tuple[Lease, Lease]) -> None:
    first, second = pair
    first.renew()

    first.give_up()

    assert not first.mine
    assert second.renew()


def test_only_the_holder_can_give_a_lease_up(pair: tuple[Lease, Lease]) -> None:
    first, second = pair
    first.renew()

    second.give_up()

    assert row().leader == first.holder


def test_each_cluster_has_its_own_lease(pair: tuple[Lease, Lease]) -> None:
    pair[0].renew()

    assert Lease("other").renew()


def test_a_lease_is_not_believed_for_longer_than_it_lasts(
    pair: tuple[Lease, Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    first.renew()

    now = time.monotonic() + LASTS_SECONDS
    monkeypatch.setattr("queues.lease.time.monotonic", lambda: now)

    assert not first.mine


def test_who_has_lost_the_lease_says_nothing_more_to_the_database(pair: tuple[Lease, Lease]) -> None:
    first, second = pair
    first.renew()

    with first.needed():
        held = ClusterState.objects.count()
        let_it_run_out()
        second.renew()
        first.renew()
        with pytest.raises(Lost):
            ClusterState.objects.count()

    assert held == 1
    assert row().leader == second.holder


def test_what_a_frozen_holder_has_locked_is_free_again_before_long(pair: tuple[Lease, Lease]) -> None:
    first, _ = pair
    first.renew()

    with first.needed(), connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        limit = cursor.fetchone()

    assert limit == ("30s",)
