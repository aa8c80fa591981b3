"""What people do all day: sign in, submit, watch, change, find out why."""

import re

import pytest
from playwright.sync_api import expect

from queues.models import Job
from queues.states import JobState
from tenants.models import ApiToken, Quota
from tests.journeys.conftest import PASSWORD, Visit
from tests.journeys.site import Site
from tests.queues.lab import Lab

pytestmark = pytest.mark.journey


def test_a_gang_goes_from_the_form_to_running_without_a_reload(lab: Lab, portal: Site, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new")
    page.get_by_label("Name", exact=True).fill("sft")
    page.get_by_label("Image").fill("reg.example/sft:1")
    page.get_by_text("All together").click()
    page.get_by_role("textbox", name="Tasks").fill("2")
    page.get_by_label("GPUs a task").fill("8")

    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="sft")).to_be_visible()
    expect(page.locator(".title .badge")).to_have_text("queued")
    page.evaluate("window.stayed = true")
    job = Job.objects.get()
    lab.start(job)
    portal.tell(f"job:{job.uid}")

    expect(page.locator(".title .badge")).to_have_text("running")
    expect(page.get_by_text("Running 2 of 2 tasks.")).to_be_visible()
    assert page.evaluate("window.stayed") is True


def test_a_mistake_is_shown_at_its_field_and_nothing_typed_is_lost(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new", expect=("422",))
    page.get_by_label("Name", exact=True).fill("sft")
    page.get_by_label("Image").fill("reg.example/sft:1")
    page.get_by_role("textbox", name="Tasks").fill("0")

    page.get_by_role("button", name="Submit").click()

    expect(page.get_by_text("tasks is from 1 to 10000, not 0")).to_be_visible()
    expect(page.get_by_role("textbox", name="Tasks")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Image")).to_have_value("reg.example/sft:1")
    page.get_by_role("textbox", name="Tasks").fill("3")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="sft")).to_be_visible()


def test_the_yaml_tab_says_the_same_as_the_form(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new")
    page.get_by_label("Name", exact=True).fill("sft")
    page.get_by_role("button", name="YAML").click()

    text = page.get_by_label("Job as YAML")
    expect(text).to_have_value(re.compile("name: sft"))
    text.fill(text.input_value().replace("name: sft", "name: other"))
    page.get_by_role("button", name="Form").click()

    expect(page.get_by_label("Name", exact=True)).to_have_value("other")


def test_a_row_of_the_queue_opens_into_its_reason(lab: Lab, visit: Visit) -> None:
    lab.start(lab.submit(gpus="h100:8"))
    lab.submit(name="huge", shape="gang", tasks=4, gpus="h100:8")
    page = visit(lab.ann, "/queue")

    page.locator("tr", has_text="huge").locator("summary").click()

    expect(page.get_by_text("Largest on one node")).to_be_visible()


def test_a_list_in_use_is_not_moved_but_says_that_it_changed(lab: Lab, portal: Site, visit: Visit) -> None:
    lab.submit(name="first")
    page = visit(lab.ann, "/jobs?view=all")
    page.get_by_label("first").check()
    lab.submit(name="second")
    portal.tell("jobs")

    pill = page.get_by_role("button", name="Show what changed")
    expect(pill).to_be_visible()
    expect(page.get_by_role("link", name="second")).not_to_be_visible()
    pill.click()

    expect(page.get_by_role("link", name="second")).to_be_visible()
    expect(pill).not_to_be_visible()


def test_ticked_jobs_are_counted_and_cancelled(lab: Lab, visit: Visit) -> None:
    jobs = [lab.submit(name=f"n{number}") for number in range(3)]
    page = visit(lab.ann, "/jobs?state=active")

    page.get_by_label("Tick all on this page").check()
    expect(page.locator("[data-n]")).to_have_text("3")
    page.get_by_label("n1", exact=True).uncheck()
    expect(page.locator("[data-n]")).to_have_text("2")
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("2 jobs cancelled.")).to_be_visible()
    assert [Job.objects.get(id=job.id).state for job in jobs] == ["cancelled", "queued", "cancelled"]


def test_two_admins_who_edit_one_quota_do_not_overwrite_each_other(lab: Lab, visit: Visit) -> None:
    first, second = (visit(lab.root, "/teams/nlp") for _ in range(2))
    for page, units in ((first, "12"), (second, "4")):
        page.get_by_label("Guaranteed h100").fill(units)
    for page in (first, second):
        page.locator("tr", has_text="h100").get_by_role("button", name="Save").click()
        # The first one is through before the second one begins.
        expect(first.get_by_text("h100 of nlp is set.")).to_be_visible()

    expect(second.get_by_role("alert")).to_contain_text("change them again")
    # What was typed is kept beside what is there.
    expect(second.get_by_label("Guaranteed h100")).to_have_value("4")
    expect(second.locator("tr", has_text="h100").get_by_text("now 12", exact=True)).to_be_visible()
    assert Quota.objects.get(team=lab.nlp, flavor=lab.h100).guaranteed == 12


def test_a_token_is_made_and_revoked(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/me/tokens")
    page.get_by_label("What uses it").fill("airflow")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#secret")).to_have_text(re.compile("^tg_"))
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Revoke").click()

    expect(page.get_by_text("No tokens yet")).to_be_visible()
    assert ApiToken.objects.get().revoked_at is not None


def test_all_that_matters_works_without_javascript(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs/new", java_script_enabled=False)
    page.get_by_label("Name", exact=True).fill("plain")
    page.get_by_label("Image").fill("reg.example/sft:1")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="plain")).to_be_visible()
    page.get_by_role("button", name="Hold").click()
    expect(page.locator(".title .badge")).to_have_text("held")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".title .badge")).to_have_text("cancelled")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/jobs?view=all&q=plain")

    expect(page.get_by_role("link", name="plain")).to_be_visible()
    assert Job.objects.get().state == JobState.CANCELLED


def test_who_was_signed_out_comes_back_to_where_they_were(lab: Lab, portal: Site, visit: Visit) -> None:
    lab.submit(name="first")
    page = visit(lab.ann, "/jobs?state=active", expect=("401",))
    expect(page.locator("body")).to_have_attribute("data-stream", "open")
    page.context.clear_cookies()
    portal.tell("jobs")

    page.wait_for_url("**/login?next=*")
    page.get_by_label("User name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()

    page.wait_for_url("**/jobs?state=active")
    expect(page.get_by_role("link", name="first")).to_be_visible()
