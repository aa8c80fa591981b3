from datetime import timedelta
from types import SimpleNamespace

import pytest

from queues.benchmarks import besideworld
from queues.benchmarks.beside import Tidegate
from queues.models import Queue
from tenants.models import Quota

LOAD = SimpleNamespace(
    queues=[SimpleNamespace(name="cq-0", cohort="c", quota=20, borrow=100)], items=[SimpleNamespace(priority=50)]
)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "within", "seconds"),
    [({}, "lower_priority", 60), ({"within": "never", "min_runtime": "0"}, "never", 0)],
)
def test_queues_of_the_side_by_side_recall_nobody_in_the_first_minute_unless_told_otherwise(
    options: dict[str, str], within: str, seconds: int
) -> None:
    besideworld.make(LOAD, **Tidegate(**options).policy())

    queue = Queue.objects.get(team__name="cq-0")
    assert (queue.preempt_within_team, queue.min_runtime) == (within, timedelta(seconds=seconds))
    assert (queue.hold_after, queue.default_time_limit) == (timedelta(minutes=30), None)
    assert Quota.objects.get(team__name="cq-0").guaranteed == 20
