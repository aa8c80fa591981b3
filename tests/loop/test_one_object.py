"""I4: there is one live Kubernetes object for each wave and group, whatever is told twice, late or to what is gone."""

from collections import Counter
from collections.abc import Callable
from random import Random

from django.utils import timezone

from queues import cycle
from queues.models import Job, Wave
from queues.states import ENDED
from tests.loop.stage import Stage

Step = Callable[[], object]

SHAPES: tuple[dict[str, object], ...] = (
    {"shape": "gang", "tasks": 2},
    {"shape": "independent", "tasks": 3},
    {"shape": "elastic", "tasks": {"min": 1, "max": 3}},
    {
        "shape": "gang",
        "groups": [{"name": "head", "tasks": 1, "gpus": "h100:1"}, {"name": "rest", "tasks": 2, "gpus": "h100:1"}],
    },
)


def told_again() -> None:
    """Let everything be told to the cluster once more, as after workers that died before they wrote the answer."""
    Wave.objects.exclude(state="ended").update(wish_due_at=timezone.now(), wish_tries=0)


def live(stage: Stage) -> Counter[tuple[str, int]]:
    """Count the objects of each wave and group that are there and not on their way out."""
    return Counter((seen.wave, seen.group) for seen in stage.objects() if not seen.leaving)


def test_each_wave_and_group_has_one_live_object_whatever_is_told_again(stage: Stage) -> None:
    dice, most = Random(4), Counter[tuple[str, int]]()
    jobs: list[Job] = []
    steps: list[Step] = [stage.look, stage.release, told_again, lambda: cycle.run_cycle(timezone.now)]

    for turn in range(14):
        if turn < 8:
            spec = dict(SHAPES[turn % len(SHAPES)])
            jobs.append(stage.submit(**({"gpus": "h100:1"} if "groups" not in spec else {}), **spec, run_for="0.2s"))
        for step in dice.choices(steps, k=5):
            step()
            counted = live(stage)
            most |= counted
            assert not [key for key, number in counted.items() if number > 1]
    stage.until(lambda: not Job.objects.exclude(state__in=ENDED).exists())

    waves = {(str(wave.uid), group) for wave in Wave.objects.all() for group in range(wave.job.groups.count())}
    assert set(most) <= waves
    assert len(most) >= len(jobs)
