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
