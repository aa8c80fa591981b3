"""The log tab of a job's page."""

import re

import pytest

from queues.models import Job, KeptLog, Task
from tests.queues.lab import NOW, Lab
from tests.queues.test_views_pages import browser


def gang(lab: Lab) -> Job:
    job = lab.submit(shape="gang", tasks=3)
    wave = lab.start(job)
    for task in wave.tasks.all():
        Task.objects.filter(id=task.id).update(pod=f"pod-{task.index}", bound=True)
    return job


def shown(lab: Lab, job: Job, query: str = "") -> str:
    return browser(lab.ann).get(f"/jobs/{job.uid}?tab=logs{query}").content.decode()


def address(text: str) -> str:
    found = re.search(r'data-log="([^"]*)"', text)
    return found[1].replace("&amp;", "&") if found else ""


def test_a_job_that_has_not_started_has_no_log(lab: Lab) -> None:
    assert "No log yet" in shown(lab, lab.submit())


def test_the_task_that_failed_is_chosen_first(lab: Lab) -> None:
    job = gang(lab)
    Task.objects.filter(index=1).update(state="failed", ended_at=NOW, exit_code=3)

    text = shown(lab, job)

    assert address(text) == f"/api/v1/jobs/{job.uid}/logs?attempt=1&task=1"
    assert re.findall(r"<option value=\"(\d)\"( selected)?>Task", text) == [("1", " selected"), ("0", ""), ("2", "")]
    assert "exit 3" in text


@pytest.mark.parametrize("query", ["&task=9", "&task=x", "&attempt=7", "&task=99999999999"])
def test_a_choice_that_is_not_there_falls_back(lab: Lab, query: str) -> None:
    assert "Log of task 0" in shown(lab, gang(lab), query)


def test_container_and_earlier_run_go_into_the_address(lab: Lab) -> None:
    job = gang(lab)

    text = shown(lab, job, "&task=2&container=side%26car&previous=true")

    assert address(text).endswith("logs?attempt=1&task=2&container=side%26car&previous=true")


def test_a_failed_job_shows_its_last_lines_at_once(lab: Lab) -> None:
    job = gang(lab)
    task = Task.objects.get(index=1)
    Task.objects.filter(id=task.id).update(state="failed", ended_at=NOW, exit_code=137, reason="OOMKilled")
    KeptLog.objects.create(task=task, until=NOW, kept_at=NOW, text="".join(f"<line {n}>\n" for n in range(50)))
    Job.objects.filter(id=job.id).update(state="failed", ended_at=NOW)

    text = browser(lab.ann).get(f"/jobs/{job.uid}").content.decode()

    assert "Out of memory" in text
    assert re.findall(r"&lt;line (\d+)&gt;", text) == [str(n) for n in range(30, 50)]
