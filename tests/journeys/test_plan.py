"""What would become of a job, while one fills the form; and without scripts."""

import re

import pytest
from playwright.sync_api import expect

from queues.models import Job
from tests.journeys.conftest import Visit
from tests.queues.lab import Lab

pytestmark = pytest.mark.journey


def test_the_right_column_follows_what_is_typed(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new")
    plan = page.locator("#plan")
    expect(plan).to_contain_text("shows here as you type")

    page.get_by_label("Name", exact=True).fill("sft")
    expect(plan).to_contain_text("Not a whole job yet")
    page.get_by_label("Image").fill("reg.example/sft:1")
    page.get_by_label("GPUs a task").fill("8")
    expect(plan).to_contain_text("Starts now")
    expect(plan).to_contain_text("inside your guarantee")
    page.get_by_label("GPUs a task").fill("9")

    expect(plan).to_contain_text("Can never start")
    assert Job.objects.count() == 0


def test_a_button_checks_it_without_scripts(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new", java_script_enabled=False)
    page.get_by_label("Name", exact=True).fill("sft")
    page.get_by_label("Image").fill("reg.example/sft:1")

    page.get_by_role("button", name="Check").click()

    expect(page.locator("#plan")).to_contain_text(re.compile("Starts now"))
    expect(page.get_by_label("Image")).to_have_value("reg.example/sft:1")
    assert Job.objects.count() == 0


def test_a_flexible_job_is_planned_and_submitted_with_its_bounds(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new")
    plan = page.locator("#plan")
    page.get_by_label("Name", exact=True).fill("grows")
    page.get_by_label("Image").fill("reg.example/sft:1")
    page.get_by_label("GPUs a task").fill("4")
    expect(page.get_by_label("At most")).to_be_hidden()

    page.get_by_text("Flexible").click()
    expect(page.get_by_label("Tasks", exact=True)).to_be_hidden()
    page.get_by_label("At least").fill("2")
    expect(plan).to_contain_text("max is needed")
    page.get_by_label("At most").fill("6")
    expect(plan).to_contain_text("There is room for its least tasks")
    expect(plan).to_contain_text("up to 24, as long as nobody else needs them")
    page.get_by_role("button", name="Submit").click()

    expect(page.locator("h1")).to_have_text("grows")
    expect(page.locator(".lede")).to_contain_text("2 to 6 x 4 h100, flexible")
    assert Job.objects.get().spec["spec"]["tasks"] == {"min": 2, "max": 6}


def test_a_flexible_job_can_be_submitted_without_scripts(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new", java_script_enabled=False)
    page.get_by_label("Name", exact=True).fill("grows")
    page.get_by_label("Image").fill("reg.example/sft:1")

    page.get_by_text("Flexible").click()
    page.get_by_label("At most").fill("6")
    page.get_by_role("button", name="Submit").click()

    expect(page.locator(".lede")).to_contain_text("1 to 6 x 1")
