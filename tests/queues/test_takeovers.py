"""Claims that others took over, as both jobs and the audit tell it."""

import pytest

from queues import queries, services
from queues.admission.outcome import Outcome, Takeover
from queues.models import Job, JobEvent
from tests.queues.api.test_jobs import client
from tests.queues.lab import NOW, Lab
from tests.queues.test_evictions import claim_of, put


@pytest.fixture
def pair(lab: Lab) -> tuple[Job, Job]:
    """Let a job of nlp take over what was reserved for one of cv."""
    loser = lab.submit(lab.carl, name="borrower", team="cv", gpus="h100:8")
    taker = lab.submit(name="lenderjob", gpus="h100:8")
    over = Takeover(claim=7, job=loser.id, by=taker.id, units=8)
    put(Outcome(claims=(claim_of(lab, taker, 8),), takeovers=(over,)))
    return loser, taker


def test_both_jobs_tell_it_and_name_the_other_to_who_may_see_it(lab: Lab, pair: tuple[Job, Job]) -> None:
    loser, taker = pair

    lost = next(row for row in queries.events(lab.root, loser.uid) if row.type == "claim_taken_over")
    took = next(row for row in queries.events(lab.root, taker.uid) if row.type == "takes_over")

    assert lost.summary == (
        "Claim taken over by lenderjob of nlp: 8 GPUs reserved for this job go to it by its better right"
    )
    assert lost.details == {"claimant": str(taker.uid), "claim": 7, "units": 8}
    assert took.summary == "Takes over 8 GPUs that were reserved: borrower of cv"


def test_neither_side_reads_the_name_of_the_other(lab: Lab, pair: tuple[Job, Job]) -> None:
    loser, taker = pair

    for by, own, other in ((lab.carl, loser, taker), (lab.ann, taker, loser)):
        told = client(by).get(f"/api/v1/jobs/{own.uid}/events").content.decode()

        assert "taken over by another job" in told or "Takes over 8 GPUs that were reserved" in told
        assert other.name not in told
        assert str(other.uid) not in told


def test_the_audit_names_both_to_who_may_see_both(lab: Lab, pair: tuple[Job, Job]) -> None:
    loser, taker = pair
    path = "/api/v1/audit?action=job.take_over"

    (entry,) = client(lab.auditor).get(path).json()["items"]

    assert entry["target"] == f"job {loser.uid} borrower"
    assert (entry["team"], entry["before"]) == ("ai", {"team": "cv", "claim": 7, "units": 8})
    assert entry["after"] == {"claimant": f"job {taker.uid} lenderjob", "claimant_team": "nlp"}
    assert client(lab.lea).get(path).json()["items"] == []


def test_who_no_longer_waits_has_taken_nothing_over_and_lost_nothing(lab: Lab) -> None:
    loser, taker = lab.submit(gpus="h100:8"), lab.submit(gpus="h100:8")
    gone = lab.submit(gpus="h100:8")
    services.hold(uid=gone.uid, by=lab.ann, now=NOW)
    rows = (
        Takeover(claim=1, job=loser.id, by=gone.id, units=8),
        Takeover(claim=2, job=gone.id, by=taker.id, units=8),
    )

    put(Outcome(claims=(claim_of(lab, taker, 8), claim_of(lab, gone, 9)), takeovers=rows))

    assert not JobEvent.objects.filter(type__in=["claim_taken_over", "takes_over"]).exists()
