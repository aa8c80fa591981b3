from datetime import timedelta

from queues.cleanup import clean_up
from queues.fleet import kubeconfigs
from queues.models import Decision, Eviction
from tenants.models import IdempotentRequest
from tests.queues.lab import NOW, Lab


def decision(age: timedelta) -> None:
    Decision.objects.create(at=NOW - age, digest="d", classes=0, admissions=0, tasks=0, units=0)


def answer(lab: Lab, key: str, age: timedelta) -> None:
    IdempotentRequest.objects.create(user=lab.ann.user, key=key, fingerprint="f", created_at=NOW - age)


def test_old_decisions_and_answers_go_and_younger_ones_stay(lab: Lab) -> None:
    decision(timedelta(days=7, seconds=1))
    decision(timedelta(days=7))
    answer(lab, "old", timedelta(hours=24, seconds=1))
    answer(lab, "young", timedelta(hours=24))

    gone, again = clean_up(NOW), clean_up(NOW)

    assert (gone, again) == (2, 0)
    assert Decision.objects.count() == 1
    assert IdempotentRequest.objects.get().key == "young"


def test_an_eviction_goes_after_90_days_and_its_tasks_stay(lab: Lab) -> None:
    wave, claimant = lab.start(lab.submit(gpus="h100:8")), lab.submit()
    for age in (timedelta(days=90, seconds=1), timedelta(days=90)):
        row = Eviction.objects.create(
            wave=wave,
            claimant=claimant,
            claim=1,
            rule="guarantee",
            tasks=1,
            units=8,
            lost_unit_seconds=8,
            grace=timedelta(),
            at=NOW - age,
        )
        if age > timedelta(days=90):
            wave.tasks.update(eviction=row)

    assert clean_up(NOW) == 1
    assert Eviction.objects.get().at == NOW - timedelta(days=90)
    assert wave.tasks.get().eviction is None


def test_clusters_are_named_with_their_kubeconfigs() -> None:
    assert kubeconfigs("east=/etc/east, west=/etc/west") == {"east": "/etc/east", "west": "/etc/west"}


def test_a_path_alone_is_the_default_cluster() -> None:
    assert kubeconfigs("/etc/kubeconfig") == {"default": "/etc/kubeconfig"}


def test_without_a_setting_there_is_no_cluster() -> None:
    assert kubeconfigs("") == {}
