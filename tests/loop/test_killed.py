"""The loop dies at whatever line, again and again: what it was at is done in the end, and done once."""

from collections import Counter
from collections.abc import Callable

import pytest
from django.utils import timezone

from queues import cycle, release, services
from queues.models import Claim, Eviction, Job, Task, Wave
from queues.states import ENDED, HOLDING, TASK_HOLDING, JobState
from tests.loop.adopting import Hands, job_of
from tests.loop.killing import Calls, Killer
from tests.loop.stage import Stage, events, state, units_in_use
from tests.loop.test_elastic import claim, elastic, running
from tests.queues import manifests
from tests.queues.manifests import steer

LOOP = (
    *("queues/cycle.py", "queues/timers.py", "queues/apply.py", "queues/growth.py", "queues/evictions.py"),
    *("queues/release.py", "queues/removals.py", "queues/steps.py", "queues/endings.py", "queues/reconcile.py"),
    *("queues/moves.py", "queues/smooth.py", "queues/adoption.py", "queues/submission.py", "queues/promises.py"),
    *("platform/clusters/verbs.py", "platform/clusters/asking.py", "platform/clusters/written.py"),
)


class Mortal:
    """Turns a stage's wheels, each of which may die; nothing is ever held or made twice."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage, self.killer = stage, Killer(seed, *LOOP)
        api = stage.cluster.api
        self.calls = Calls(api.ask)
        api.ask = self.calls  # type: ignore[method-assign]

    def turn(self) -> None:
        wheels: tuple[tuple[Callable[[], object], int], ...] = (
            (self.stage.look, 600),
            (lambda: cycle.run_cycle(timezone.now), 600),
            (self.stage.release, 80),
        )
        self.calls.armed = True
        for wheel, lines in wheels:
            if self.killer.maybe(wheel, lines=lines):
                self.stage.fences = release.Fences()  # with the process goes what it remembers
                self.outlive_leases()
        self.calls.armed = False
        self.hold()

    def outlive_leases(self) -> None:
        """Let the time pass after which others may tell what the dead one was telling."""
        now = timezone.now()
        Wave.objects.filter(wish_due_at__gt=now).update(wish_due_at=now)
        Wave.objects.filter(launching_until__gt=now).update(launching_until=now)
        Eviction.objects.filter(due_at__gt=now).update(due_at=now)

    def hold(self) -> None:
        held = Task.objects.filter(state__in=TASK_HOLDING)
        places = Counter(held.values_list("node__name", flat=True))
        assert max(places.values(), default=0) <= 1, places
        twice = [key for key, count in Counter(held.values_list("wave__job", "index")).items() if count > 1]
        assert twice == []
        live = Counter((pod.wave, pod.group, pod.index) for pod in self.stage.pods() if not pod.leaving)
        assert max(live.values(), default=0) <= 1, live

    def cancel(self, *jobs: Job) -> None:
        """Cancel jobs, and wait until they and all that was theirs are gone."""
        for job in jobs:
            services.cancel(uid=job.uid, by=self.stage.lab.root, now=timezone.now())
        self.until(lambda: all(state(job) in ENDED for job in jobs))

    def nothing_is_left(self) -> None:
        """Hold that cluster and ledger are empty."""
        self.until(lambda: not self.stage.objects() and not self.stage.pods())
        self.until(lambda: not Wave.objects.filter(wish_due_at__isnull=False).exists())
        assert units_in_use() == 0
        assert not Wave.objects.filter(state__in=HOLDING).exists()

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(2000):
            if condition():
                return
            self.turn()
        raise AssertionError([(job.name, job.state, job.reason_text) for job in Job.objects.all()])


def elastic_walk(mortal: Mortal) -> None:
    """Let an elastic job grow over all nodes, give one back, and be cancelled with the one who got it."""
    stage = mortal.stage
    job = elastic(stage, forever="1", name="grows")
    mortal.until(lambda: running(job) == 4)
    owner = claim(stage)
    mortal.until(lambda: state(owner) is JobState.RUNNING and running(job) == 3)
    mortal.until(lambda: not Claim.objects.exists())
    told = (state(job), job.attempt, job.evictions, events(job).count("grew"), events(job).count("shrank"))
    mortal.cancel(job, owner)

    assert told == (JobState.RUNNING, 1, 0, 1, 1)
    assert Eviction.objects.filter(wave__job=job).count() == 1


def single_tasks_walk(mortal: Mortal) -> None:
    """Let single tasks of an independent job go for a guarantee while the rest runs on, and come back."""
    stage = mortal.stage
    job = stage.submit(shape="independent", tasks=4, gpus="h100:8", forever="1", name="parts")
    mortal.until(lambda: running(job) == 4)
    owner = claim(stage)
    mortal.until(lambda: state(owner) is JobState.RUNNING and running(job) == 3)
    services.cancel(uid=owner.uid, by=stage.lab.carl, now=timezone.now())
    mortal.until(lambda: running(job) == 4)
    told = (state(job), job.failures, events(job).count("evicted"))
    mortal.cancel(job, owner)

    assert told == (JobState.RUNNING, 0, 1)


def gang_walk(mortal: Mortal) -> None:
    """Let a borrowed gang go whole for a guarantee and end well in its second attempt."""
    stage = mortal.stage
    job = stage.submit(shape="gang", tasks=4, gpus="h100:8", forever="1", name="gang")
    mortal.until(lambda: running(job) == 4)
    owner = claim(stage)
    mortal.until(lambda: state(owner) is JobState.RUNNING)
    mortal.cancel(owner)
    mortal.until(lambda: running(job) == 4)
    stage.finish(job)
    mortal.until(lambda: state(job) is JobState.SUCCEEDED)
    mortal.nothing_is_left()

    assert (job.attempt, job.failures, job.evictions) == (2, 0, 1)
    assert [events(job).count(word) for word in ("admitted", "started", "evicted", "succeeded")] == [2, 2, 1, 1]


def adopted_walk(mortal: Mortal) -> None:
    """Let a Job that somebody made be adopted, recalled, run again and end, in the hands of whoever made it."""
    stage = mortal.stage
    hands = Hands(stage)
    name = f"made-{Job.objects.count()}"
    hands.make(manifests.job(name, pods=4, units=8, notes=steer(forever="1")))
    mortal.until(lambda: Job.objects.filter(name=name).exists())
    job = job_of(name)
    mortal.until(lambda: running(job) == 4)
    owner = claim(stage)
    mortal.until(lambda: state(owner) is JobState.RUNNING)
    waits = (state(job), hands.get(name)["spec"]["suspend"])
    mortal.cancel(owner)
    mortal.until(lambda: running(job) == 4)
    stage.finish(job)
    mortal.until(lambda: state(job) is JobState.SUCCEEDED)
    mortal.until(lambda: "tidegate.io/wave" not in hands.get(name)["metadata"]["labels"])
    hands.delete(name)

    assert waits == (JobState.QUEUED, True)
    assert (job.attempt, job.failures) == (2, 0)
    assert Job.objects.filter(name=name).count() == 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("walk", [elastic_walk, single_tasks_walk, gang_walk, adopted_walk])
def test_a_loop_that_dies_at_any_line_does_what_it_was_at_once_and_leaves_nothing(
    stage: Stage, walk: Callable[[Mortal], None]
) -> None:
    mortal = Mortal(stage, seed=1)

    walk(mortal)

    mortal.nothing_is_left()
    assert mortal.killer.struck
    assert mortal.calls.deaths
