"""The list of jobs, one job, and what can be done to them from their pages."""

import html
import re
from typing import Any

import pytest

from queues.models import Job
from queues.states import JobState
from tests.queues.lab import Lab
from tests.queues.test_views_pages import browser


def names(text: str) -> list[str]:
    return re.findall(r'<a class="name" href="/jobs/[^"]+">([^<]+)', text)


def test_the_list_starts_with_ones_own_active_jobs(lab: Lab) -> None:
    lab.submit(lab.ann, name="mine")
    lab.submit(lab.art, name="his")

    assert names(browser(lab.ann).get("/jobs").content.decode()) == ["mine"]


def test_filters_of_the_url_narrow_the_list(lab: Lab) -> None:
    for name in ("alpha", "beta"):
        lab.submit(name=name)
    lab.submit(name="gamma", gpus="l40s:1")
    client = browser(lab.ann)

    assert names(client.get("/jobs?view=all").content.decode()) == ["gamma", "beta", "alpha"]
    assert names(client.get("/jobs?view=all&q=bet").content.decode()) == ["beta"]
    assert names(client.get("/jobs?view=all&gpu_type=l40s").content.decode()) == ["gamma"]
    assert names(client.get("/jobs?state=running").content.decode()) == []


def test_an_unknown_state_in_the_url_is_named_with_those_that_are_allowed(lab: Lab) -> None:
    text = browser(lab.ann).get("/jobs?state=sleeping").content.decode()

    assert "&#x27;sleeping&#x27;" in text
    assert "queued" in text


@pytest.mark.parametrize("position", ["x", "-1", "9" * 40])
def test_a_page_position_that_is_none_is_passed_over(lab: Lab, position: str) -> None:
    lab.submit(name="first")

    assert names(browser(lab.ann).get(f"/jobs?view=all&before={position}").content.decode()) == ["first"]


def test_pages_of_a_long_list_follow_one_another(lab: Lab) -> None:
    for number in range(53):
        lab.submit(name=f"n{number:02}")
    client = browser(lab.ann)

    first = client.get("/jobs?view=all").content.decode()
    older = re.search(r'href="(\?[^"]*before=\d+)"', first)
    assert older is not None
    second = client.get("/jobs" + older[1].replace("&amp;", "&")).content.decode()

    assert names(first) == [f"n{number:02}" for number in range(52, 2, -1)]
    assert names(second) == ["n02", "n01", "n00"]
    assert "after=" in second


def test_a_waiting_job_says_why_and_what_it_needs(lab: Lab) -> None:
    job = lab.submit(name="huge", shape="gang", tasks=2, gpus="h100:8")

    text = browser(lab.ann).get(f"/jobs/{job.uid}").content.decode()

    assert "Needs" in text
    assert "16 h100" in text
    assert "Estimate comes within a minute" in text
    assert "May hold its place" in text


@pytest.mark.parametrize(
    ("verb", "state", "words"),
    [
        ("cancel", JobState.CANCELLED, ("Cancelled.", "It ended before it was admitted: it had no pods.")),
        ("hold", JobState.HELD, ("Held.", "Nodes and pods appear here once it is admitted.")),
    ],
)
def test_a_button_of_the_job_page_does_what_it_says(
    lab: Lab, verb: str, state: JobState, words: tuple[str, ...]
) -> None:
    job = lab.submit()

    page = browser(lab.ann).post(f"/jobs/{job.uid}/{verb}", follow=True)

    job.refresh_from_db()
    assert job.state == state
    assert [text for text in words if text not in page.content.decode()] == []


def test_a_held_job_is_released(lab: Lab) -> None:
    job = lab.submit()
    client = browser(lab.ann)
    client.post(f"/jobs/{job.uid}/hold")

    client.post(f"/jobs/{job.uid}/release")

    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_what_cannot_be_done_any_more_is_said_on_the_page(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job)

    page = browser(lab.ann).post(f"/jobs/{job.uid}/hold", follow=True)

    assert 'role="alert"' in page.content.decode()
    job.refresh_from_db()
    assert job.state == JobState.RUNNING


def test_a_viewer_gets_no_buttons_and_no_effect(lab: Lab) -> None:
    job = lab.submit()
    client = browser(lab.vic)

    text = client.get(f"/jobs/{job.uid}").content.decode()
    client.post(f"/jobs/{job.uid}/cancel")

    job.refresh_from_db()
    assert f"/jobs/{job.uid}/cancel" not in text
    assert job.state == JobState.QUEUED


# What everybody who is signed in may do.
EVERYBODY = ("/theme", "/logout", "/me/tokens", "")


@pytest.mark.parametrize("who", ["vic", "auditor"])
def test_who_may_change_nothing_is_offered_no_change_on_any_page(lab: Lab, who: str) -> None:
    job, client = lab.submit(), browser(getattr(lab, who))
    lab.start(lab.submit(name="runs"))
    pages = [
        "/",
        "/queue",
        "/jobs",
        "/jobs?view=all",
        f"/jobs/{job.uid}",
        "/teams",
        "/teams/nlp",
        "/nodes",
        "/me/tokens",
    ]

    for page in pages:
        text = client.get(page).content.decode()

        offered = re.findall(r'<form[^>]*method="post"[^>]*?(?:action="([^"]*)")?[^>]*>', text)
        assert set(offered) <= set(EVERYBODY), page
        assert "/jobs/new" not in text, page
        assert "formaction" not in text, page


def test_run_again_makes_a_new_job_of_ones_own_and_opens_it(lab: Lab) -> None:
    job = lab.submit(lab.ann, name="again")
    browser(lab.ann).post(f"/jobs/{job.uid}/cancel")

    response = browser(lab.art).post(f"/jobs/{job.uid}/rerun")

    made = Job.objects.get(cloned_from=job)
    assert response["Location"] == f"/jobs/{made.uid}"
    assert (made.name, made.user.username) == ("again", "art")


def bulk(lab: Lab, **fields: Any) -> Any:  # noqa: ANN401  form fields, a response
    return browser(lab.ann).post("/jobs/bulk", fields, follow=True)


def test_a_few_ticked_jobs_are_held_at_once(lab: Lab) -> None:
    jobs = [lab.submit(name=f"n{number}") for number in range(3)]

    page = bulk(lab, verb="hold", query="state=active", uid=[job.uid for job in jobs[:2]])

    assert "2 jobs held." in page.content.decode()
    assert [Job.objects.get(id=job.id).state for job in jobs] == ["held", "held", "queued"]
    assert page.redirect_chain == [("/jobs?state=active", 302)]


def test_all_that_match_are_counted_and_confirmed_first(lab: Lab) -> None:
    for number in range(3):
        lab.submit(name=f"n{number}")

    asked = bulk(lab, verb="cancel", query="state=active", every="1")
    assert Job.objects.filter(state="queued").count() == 3
    done = bulk(lab, verb="cancel", query="state=active", every="1", count="3")

    assert "Cancel 3 jobs?" in asked.content.decode()
    assert "3 jobs cancelled." in done.content.decode()
    assert Job.objects.filter(state="cancelled").count() == 3


def test_more_than_twenty_need_the_typed_number(lab: Lab) -> None:
    jobs = [lab.submit(name=f"n{number}") for number in range(21)]
    uids = [job.uid for job in jobs]

    asked = bulk(lab, verb="cancel", query="", uid=uids)
    wrong = bulk(lab, verb="cancel", query="", uid=uids, count="12")
    assert Job.objects.filter(state="queued").count() == 21
    done = bulk(lab, verb="cancel", query="", uid=uids, count="21")

    assert "Type 21 to confirm" in asked.content.decode()
    assert "That is not 21. Nothing was changed." in wrong.content.decode()
    assert "21 jobs cancelled." in done.content.decode()


def test_what_one_of_many_refused_is_said_by_name(lab: Lab) -> None:
    mine, theirs = lab.submit(lab.ann, name="mine"), lab.submit(lab.art, name="theirs")

    page = bulk(lab, verb="cancel", query="", uid=[mine.uid, theirs.uid])

    text = page.content.decode()
    assert "1 job cancelled." in text
    assert "theirs" in text
    theirs.refresh_from_db()
    assert theirs.state == JobState.QUEUED


@pytest.mark.parametrize("fields", [{"verb": "cancel"}, {"verb": "explode", "uid": "x"}, {}])
def test_a_bulk_change_of_nothing_changes_nothing(lab: Lab, fields: dict[str, str]) -> None:
    lab.submit()

    page = bulk(lab, **fields)

    assert "Tick at least one job first." in page.content.decode()
    assert Job.objects.filter(state="queued").count() == 1


def test_the_page_of_an_elastic_job_says_what_it_has_and_what_goes_back(lab: Lab) -> None:
    base = lab.start(lab.submit(shape="elastic", tasks={"min": 1, "max": 4}))
    lab.grow(base, lab.nodes[1])

    text = html.unescape(browser(lab.ann).get(f"/jobs/{base.job.uid}").content.decode())

    assert "Runs with 2 of at most 4 tasks, minimum 1; up to 2 more when GPUs are free that nobody else needs." in text
    assert "Its minimum is inside the guarantee of nlp; what it has beyond goes back to whoever needs the GPUs." in text
