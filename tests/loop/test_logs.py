"""What failed tasks wrote outlives their pods, on a cluster that deletes them."""

from queues.models import KeptLog, Task
from queues.states import JobState
from tests.loop.stage import Stage


def test_a_gangs_failed_task_leaves_its_last_lines_when_its_pods_are_gone(stage: Stage) -> None:
    job = stage.submit(shape="gang", tasks=2, run_for="100ms", exit_code=137)

    assert stage.until_ended(job) is JobState.FAILED
    stage.until(lambda: not stage.pods() and not KeptLog.objects.filter(kept_at=None).exists())

    kept = KeptLog.objects.exclude(text="").select_related("task").first()
    assert kept is not None
    assert kept.text.splitlines()[-1] == "end exit code 137"
    task = Task.objects.get(id=kept.task_id)
    assert (task.exit_code, task.reason, task.container) == (137, "Error", "main")


def test_what_succeeds_leaves_no_log(stage: Stage) -> None:
    job = stage.submit(run_for="100ms")

    assert stage.until_ended(job) is JobState.SUCCEEDED

    assert not KeptLog.objects.exists()
