"""The log of a job: followed while it runs, searched, and still told when its pod is gone."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from clusters.kube import connect
from queues import tails
from queues.models import Job, KeptLog
from queues.states import JobState
from tests.journeys.conftest import Visit
from tests.journeys.site import Site
from tests.loop.stage import Stage, state
from tests.queues.lab import Lab

pytestmark = pytest.mark.journey


@pytest.fixture
def stage(lab: Lab, portal: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    settings.TIDEGATE_KEEP_SECONDS = 0
    # No log is given up because the machine stands still for a while.
    monkeypatch.setattr(tails, "WAVE_WAITS", timedelta(minutes=5))
    cluster = connect("default", kubeconfig=portal.kubeconfig)
    stage = Stage(lab, cluster)
    stage.look()
    yield stage
    cluster.close()


def runs(stage: Stage) -> Job:
    job = stage.submit(shape="gang", tasks=2, forever="1")
    stage.until(lambda: state(job) is JobState.RUNNING)
    stage.until(lambda: job.waves.get().tasks.filter(state="running").count() == 2)
    return job


def lines(page: Page) -> list[str]:
    return page.locator("[data-log-view] .line").all_inner_texts()


def test_a_running_task_is_followed_and_another_one_chosen(lab: Lab, stage: Stage, visit: Visit) -> None:
    job = runs(stage)
    page = visit(lab.ann, f"/jobs/{job.uid}?tab=logs")
    view = page.get_by_role("region", name="Lines of the log")

    expect(view).to_contain_text("step 1 ")
    expect(view).to_contain_text("step 3 ")
    expect(page.locator("[data-log-status]")).to_have_text("Following")
    assert "-0-0-" in lines(page)[0]
    page.get_by_label("Task", exact=True).select_option("1")

    expect(page.get_by_role("heading", name="Log of task 1")).to_be_visible()
    expect(view).to_contain_text("-0-1-")


def test_a_log_is_searched_paused_and_shown_with_times(lab: Lab, stage: Stage, visit: Visit) -> None:
    job = runs(stage)
    page = visit(lab.ann, f"/jobs/{job.uid}?tab=logs")
    view = page.get_by_role("region", name="Lines of the log")
    expect(view).to_contain_text("step 2 ")

    page.get_by_label("Find in the log").fill("STEP 1 ")
    expect(page.locator("[data-log-hits]")).to_have_text("1 match")
    page.keyboard.press("Enter")
    expect(page.locator("[data-log-hits]")).to_have_text("1 of 1")
    expect(page.locator("[data-log-status]")).to_have_text("Paused")
    expect(page.get_by_role("button", name=re.compile("Jump to end, [1-9]"))).to_be_visible()
    page.get_by_role("button", name="Follow").click()
    expect(page.locator("[data-log-status]")).to_have_text("Following")
    page.get_by_role("button", name="Times").click()

    expect(view).to_contain_text(re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z step 1 "))


def test_why_a_task_failed_is_told_when_its_pod_is_gone(lab: Lab, stage: Stage, visit: Visit) -> None:
    job = stage.submit(run_for="200ms", exit_code=137)
    stage.until_ended(job)
    stage.until(lambda: not [pod for pod in stage.pods() if pod.wave] and KeptLog.objects.get().kept_at is not None)

    page = visit(lab.ann, f"/jobs/{job.uid}")
    expect(page.get_by_text("Killed (SIGKILL)").first).to_be_visible()
    expect(page.get_by_role("region", name="Last lines of task 0")).to_contain_text("end exit code 137")
    page.get_by_role("link", name="Whole log").click()

    view = page.get_by_role("region", name="Lines of the log")
    expect(view).to_contain_text("Its pod is gone. These are the last lines, kept when the task failed.")
    expect(view).to_contain_text("end exit code 137")
    expect(page.locator("[data-log-status]")).to_have_text("Complete")


def test_without_javascript_the_log_is_a_link_to_text(lab: Lab, stage: Stage, visit: Visit) -> None:
    job = runs(stage)
    page = visit(lab.ann, f"/jobs/{job.uid}?tab=logs", java_script_enabled=False, expect=("favicon",))

    page.get_by_role("link", name="Open the log as text").click()

    expect(page.locator("body")).to_contain_text("start tg-")
