"""Every page for everybody: by keyboard, with a screen reader's eyes, small, light and dark."""

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from queues.models import ClusterState, Decision, Job, KeptLog, Node
from tests.journeys.conftest import Visit
from tests.journeys.site import Site
from tests.queues.lab import NOW, Lab

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.journey


@pytest.fixture
def pages(lab: Lab) -> list[str]:
    """Return every page, with something on it."""
    queued = lab.submit(name="waits", shape="gang", tasks=2, gpus="h100:8", metadata={"labels": {"project": "llama"}})
    never = lab.submit(name="never", shape="gang", tasks=9, gpus="h100:8")
    running = lab.submit(name="runs", gpus="h100:4", tasks=3)
    lab.start(running)
    failed = lab.submit(name="breaks")
    task = lab.start(failed).tasks.get()
    KeptLog.objects.create(task=task, until=NOW, kept_at=NOW, text="step 1\nboom\n")
    Job.objects.filter(id=failed.id).update(state="failed", ended_at=NOW)
    west = ClusterState.objects.create(name="west", unreachable_since=NOW, away=True)
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    facts = {"units": 8, "counted": {"nvidia.com/gpu": 8}, "labels": labels, "first_seen_at": NOW, "changed_at": NOW}
    Node.objects.create(cluster=west, name="w0", ready=True, **facts)
    lab.nodes[1].cordoned = True
    lab.nodes[1].save()
    cycle = Decision.objects.create(
        at=NOW, digest="d", classes=1, admissions=1, tasks=1, units=8, durations={"load": 2.5}
    )
    return [
        *("/", "/?map=state&mine=1", "/queue", "/jobs?view=all", "/jobs?view=all&q=nothing"),
        *(f"/jobs/{queued.uid}", f"/jobs/{never.uid}", f"/jobs/{running.uid}"),
        *(f"/jobs/{running.uid}?tab=logs", f"/jobs/{queued.uid}?tab=logs", f"/jobs/{failed.uid}"),
        *(f"/jobs/{running.uid}?tab=events", f"/jobs/{running.uid}?tab=spec", "/jobs/new", "/jobs/new?tab=yaml"),
        *("/teams", "/teams/nlp", "/teams/ai", "/nodes", "/nodes/default/h0", "/nodes/default/h1"),
        *("/admin/decisions", f"/admin/decisions/{cycle.id}", "/me/tokens", "/login", "/nothing/here"),
    ]


AXE = Axe()
# Only of what is wrong it is told where it stands: that takes most of the time.
FAULTS = {"resultTypes": ["violations"]}
# What a theme can change.
COLOURS = {**FAULTS, "runOnly": {"type": "rule", "values": ["color-contrast"]}}


def serious(page: "Page", options: dict[str, Any]) -> list[str]:
    """Return what is badly wrong; the rules themselves are in the page already."""
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{page.url} {each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"][:3]
    ]


def too_wide(page: "Page", width: int) -> list[str]:
    """Return by how much a page is wider than a window."""
    page.set_viewport_size({"width": width, "height": 800})
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [f"{page.url} at {width}: {over}"] if over > 0 else []


def test_no_page_is_wider_than_its_window_or_has_a_serious_fault_for_those_who_use_aids(
    lab: Lab, visit: Visit, pages: list[str]
) -> None:
    page = visit(lab.root, "/", color_scheme="light", reduced_motion="reduce", expect=("404",))
    faults = []

    for path in pages:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 360, "height": 800})
        page.goto(path)
        faults += too_wide(page, 360) + too_wide(page, 1280)
        page.evaluate(AXE.axe_script)
        faults += serious(page, FAULTS)
        page.emulate_media(color_scheme="dark")
        faults += serious(page, COLOURS)

    assert faults == []


def test_the_map_is_walked_with_arrow_keys_and_keeps_its_place(
    lab: Lab, portal: Site, visit: Visit, pages: list[str]
) -> None:
    del pages
    page = visit(lab.ann, "/")
    first = page.locator("#map td[tabindex='0']")
    first.focus()

    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    here = page.evaluate("document.activeElement.id")
    expect(page.locator(".cell-card")).to_be_visible()
    lab.nodes[2].cordoned = True
    lab.nodes[2].save()
    portal.tell("nodes")
    expect(page.locator("#map th svg")).to_have_count(2)

    assert here.startswith("g-")
    assert page.evaluate("document.activeElement.id") == here
    assert page.locator("#map td[tabindex='0']").count() == 1


def test_a_cell_of_the_map_opens_its_job(lab: Lab, visit: Visit, pages: list[str]) -> None:
    del pages
    page = visit(lab.ann, "/")

    page.locator("#map td.task").first.focus()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="runs")).to_be_visible()


def test_the_theme_is_switched_and_stays(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/", color_scheme="dark")
    page.get_by_role("button", name="Light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")

    page.goto("/jobs")

    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.get_by_role("button", name="Dark")).to_be_visible()


def test_on_a_phone_the_pages_are_behind_a_menu(lab: Lab, visit: Visit) -> None:
    page = visit(lab.ann, "/", viewport={"width": 390, "height": 800})
    expect(page.get_by_role("link", name="Nodes")).not_to_be_visible()

    page.get_by_label("Menu").click()
    page.get_by_role("link", name="Nodes").click()

    expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
