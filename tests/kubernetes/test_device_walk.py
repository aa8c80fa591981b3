"""Jobs whose GPUs are devices of a class, walked on a real control plane, whose scheduler gives the devices."""

import pytest
from django.utils import timezone

from queues import services
from queues.models import Task
from queues.states import JobState
from tests.loop.dra import Cards, refused, walk
from tests.loop.stage import Stage, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer

pytestmark = pytest.mark.kubernetes


def test_jobs_claim_devices_one_after_the_other_and_leave_no_claim_behind(real: Stage) -> None:
    walk(real, seconds=120)


def test_a_gang_whose_claims_a_quota_of_others_refuses_leaves_whole_and_waits(real: Stage) -> None:
    refused(real, seconds=120)


def test_what_people_wrote_asks_for_devices_of_a_class_by_limits(real: Stage) -> None:
    cards = Cards(real, nodes=1, each=4)
    manifest = manifests.job(pods=2, units=0, notes=steer(forever="1"))
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"][real.lab.l40s.resource] = "2"

    job = services.submit(spec=manifest, by=real.lab.ann, now=timezone.now()).job
    real.until(lambda: Task.objects.filter(wave__job=job, state="running").count() == 2, seconds=120)
    held, in_use = cards.held(), units_in_use()
    counts = [pod.counted for pod in real.pods()]
    real.finish(job)
    ended = real.until_ended(job, seconds=120)
    real.until(lambda: not real.pods() and not cards.held(), seconds=120)
    cards.leave()

    assert held == {cards.ground.nodes[0]: 4}
    assert in_use == 4
    assert [dict(counted) for counted in counts] == [{real.lab.l40s.resource: 2}] * 2
    assert ended is JobState.SUCCEEDED
