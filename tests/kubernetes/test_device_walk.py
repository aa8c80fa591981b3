"""Jobs whose GPUs are devices of a class, walked on a real control plane, whose scheduler gives the devices."""

import pytest
from django.utils import timezone

from queues import services
from queues.models import Task
from queues.states import JobState
from tests.clusters.waiting import until
from tests.loop.dra import API, DRIVER, Cards, refused, walk
from tests.loop.stage import Stage, state, units_in_use
from tests.queues import manifests
from tests.queues.manifests import steer

pytestmark = pytest.mark.kubernetes


def test_jobs_claim_devices_one_after_the_other_and_leave_no_claim_behind(real: Stage) -> None:
    walk(real, seconds=120)


def test_a_gang_whose_claims_a_quota_of_others_refuses_leaves_whole_and_waits(real: Stage) -> None:
    refused(real, seconds=120)


def test_a_card_of_which_others_hold_a_half_is_given_to_nobody_until_they_have_gone(real: Stage) -> None:
    cards = Cards(real, nodes=1, each=1, halves=True)
    ground, name = cards.ground, f"half-{cards.ground.key}.example.com"
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].key == '{ground.key}-half'"}}
    metadata = {"metadata": {"name": name}, "apiVersion": "resource.k8s.io/v1"}
    ground.send("create", f"{API}/deviceclasses", body={**metadata, "spec": {"selectors": [selector]}})
    spec = {"devices": {"requests": [{"name": "half", "exactly": {"deviceClassName": name}}]}}
    space, theirs = "namespaces/default", f"theirs-{ground.key}"
    meta = {"metadata": {"name": theirs}}
    ground.send("create", f"{API}/{space}/resourceclaims", body={**meta, "spec": spec})
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "half"}]}}
    pod = {"containers": [container], "resourceClaims": [{"name": "half", "resourceClaimName": theirs}]}
    ground.send("create", f"/api/v1/{space}/pods", body={**meta, "spec": pod})
    # The scheduler gives them one half of the only card.
    path = f"/api/v1/{space}/pods/{theirs}"
    until(lambda: ground.send("get", path)["status"]["phase"] == "Running", seconds=120)

    job = real.submit(gpus="l40s:1", forever="1")
    real.turn()
    waits = state(job)
    for what in (path, f"{API}/{space}/resourceclaims/{theirs}"):
        ground.send("delete", what)
    real.until(lambda: Task.objects.filter(wave__job=job, state="running").exists(), seconds=120)
    held = cards.held()
    real.finish(job)
    ended = real.until_ended(job, seconds=120)
    ground.send("delete", f"{API}/deviceclasses/{name}")
    cards.leave()

    assert waits is JobState.QUEUED
    assert held == {ground.nodes[0]: 1}
    assert ended is JobState.SUCCEEDED


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
