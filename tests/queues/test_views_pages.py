"""Every page: who sees it, in how many queries, that it keeps the security policy, and how its live parts answer."""

import gzip
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from queues.models import ClusterState, Decision, Queue
from tenants.models import Quota
from tests.queues import crowd
from tests.queues.lab import NOW, Lab, member, node, team

INLINE = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:")
# What a page may ask the database: twelve statements, and where it says why a job waits or who is next also those of
# the snapshot that the rules look at: here, in a transaction of the test's own, all of it is read anew each time.
PAGES = {
    "/": 12,
    "/queue": 17,
    "/jobs?view=all": 12,
    "/jobs/new": 12,
    "/jobs/{queued}": 17,
    "/jobs/{queued}?tab=events": 18,
    "/jobs/{queued}?tab=spec": 17,
    "/jobs/{running}": 12,
    "/teams": 12,
    "/teams/nlp": 12,
    "/nodes": 12,
    "/nodes/default/h0": 12,
    "/admin/decisions": 12,
    "/admin/decisions/{cycle}": 12,
    "/me/tokens": 12,
}


@pytest.fixture
def shown(lab: Lab) -> dict[str, Any]:
    """Return the ids of a waiting job, a running one, and a cycle."""
    queued, running = lab.submit(name="waits"), lab.submit(name="runs", gpus="h100:8")
    lab.start(running, lab.nodes[0])
    cycle = Decision.objects.create(
        at=NOW, digest="d", classes=1, admissions=1, tasks=1, units=8, durations={"load": 2.5}
    )
    return {"queued": queued.uid, "running": running.uid, "cycle": cycle.id}


def browser(who: Any) -> Client:  # noqa: ANN401  an Actor
    client = Client()
    client.force_login(who.user)
    return client


FRAME = ("SAVEPOINT", "RELEASE", "BEGIN", "SET TRANSACTION", "COMMIT")


def statements(queries: CaptureQueriesContext) -> list[str]:
    """Return what was asked; that a transaction begins and ends is not."""
    return [query["sql"] for query in queries if not query["sql"].startswith(FRAME)]


@pytest.mark.parametrize("who", ["root", "ann"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_answers_within_its_queries_and_has_nothing_inline(
    lab: Lab, shown: dict[str, Any], page: str, who: str
) -> None:
    client = browser(getattr(lab, who))
    # The second look: what has not changed between snapshots is not read again.
    client.get(page.format(**shown))

    with CaptureQueriesContext(connection) as queries:
        response = client.get(page.format(**shown))

    text = response.content.decode()
    assert response.status_code == (403 if who == "ann" and page.startswith("/admin") else 200)
    assert len(statements(queries)) <= PAGES[page], [sql[:100] for sql in statements(queries)]
    assert not INLINE.search(text), INLINE.findall(text)
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]


@pytest.mark.usefixtures("transactional_db")
def test_where_nothing_has_changed_a_page_asks_what_it_shows_and_one_question_more(lab: Lab) -> None:
    ours = [lab.submit(name=f"waits{number}", gpus="h100:8") for number in range(2)]
    lab.start(lab.submit(name="runs", gpus="h100:8"), lab.nodes[0])
    client, counts = browser(lab.root), {}

    for page in ("/", "/queue", f"/jobs/{ours[1].uid}", "/teams/nlp", "/nodes", "/nodes/default/h0"):
        client.get(page)
        with CaptureQueriesContext(connection) as queries:
            client.get(page)
        counts[page] = len(statements(queries))

    # A job's page also names who is before it.
    assert {page: count for page, count in counts.items() if count > (13 if page.startswith("/jobs/") else 12)} == {}


def grown(lab: Lab) -> None:
    """Let there be many of everything: waiting jobs, teams that borrow, machines, tasks, members and queues."""
    crowd.copy(lab.submit(name="many"), 60)
    for number in range(20):
        node(lab.cluster, f"more{number:02}", lab.h100)
        below = team(f"more{number:02}", parent=lab.ai)
        member(f"person{number:02}", lab.nlp)
        Queue.objects.create(team=lab.nlp, name=f"line{number:02}", created_at=NOW)
        Quota.objects.create(team=below, flavor=lab.h100, guaranteed=number % 2)
    for number in range(6):
        lab.start(lab.submit(name=f"big{number}", tasks=4, gpus="h100:8"), *lab.nodes[:4])


@pytest.mark.parametrize("who", ["root", "ann"])
@pytest.mark.parametrize(
    "page",
    ["/", "/queue", "/jobs?view=all", "/jobs/new", "/jobs/{running}", "/teams", "/teams/nlp", "/nodes", "/me/tokens"],
)
def test_the_queries_of_a_page_do_not_grow_with_its_rows(lab: Lab, shown: dict[str, Any], page: str, who: str) -> None:
    client, address = browser(getattr(lab, who)), page.format(**shown)
    client.get(address)
    with CaptureQueriesContext(connection) as few:
        client.get(address)

    grown(lab)
    client.get(address)
    with CaptureQueriesContext(connection) as many:
        client.get(address)

    # Where somebody now lends or waits for a team, its jobs and names are asked for: once, however many.
    assert len(many) <= len(few) + 2, [sql[:150] for sql in statements(many)]


@pytest.mark.parametrize("page", ["/", "/queue", "/jobs?view=all", "/teams", "/nodes"])
@pytest.mark.usefixtures("shown")
def test_a_page_with_all_that_it_loads_weighs_less_than_150_kb(lab: Lab, page: str) -> None:
    crowd.copy(lab.submit(name="many"), 300)

    html = browser(lab.root).get(page).content.decode()

    weight = len(gzip.compress(html.encode()))
    for path in re.findall(r'(?:src|href)="/static/([^"?]+)', html):
        found = finders.find(path)
        assert isinstance(found, str), path
        with open(found, "rb") as file:  # noqa: PTH123  a path of the finders
            weight += len(gzip.compress(file.read()))
    assert weight < 150_000


@pytest.mark.usefixtures("shown")
def test_a_fragment_is_what_the_page_includes(lab: Lab) -> None:
    client = browser(lab.ann)

    page = client.get("/jobs?view=all").content.decode()
    fragment = client.get("/jobs?view=all&part=list").content.decode()

    assert "<html" not in fragment
    assert "waits" in fragment
    rows = re.findall(r'<a class="name"[^>]*>[^<]*', fragment)
    assert rows
    assert all(row in page for row in rows)


@pytest.mark.usefixtures("shown")
def test_a_fragment_that_has_not_changed_is_not_sent_again(lab: Lab) -> None:
    client = browser(lab.ann)
    first = client.get("/nodes?part=list")

    again = client.get("/nodes?part=list", headers={"If-None-Match": first["ETag"]})

    assert (again.status_code, again.content) == (304, b"")
    lab.nodes[0].cordoned = True
    lab.nodes[0].save()
    assert client.get("/nodes?part=list", headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_form_in_a_fragment_does_not_change_its_tag(lab: Lab, shown: dict[str, Any]) -> None:
    client = browser(lab.ann)

    first, second = (client.get(f"/jobs/{shown['queued']}?part=tasks") for _ in range(2))

    assert first["ETag"] == second["ETag"]


def test_a_part_that_a_page_does_not_have_is_not_found(lab: Lab) -> None:
    assert browser(lab.ann).get("/nodes?part=nothing").status_code == 404


def test_a_stranger_is_sent_to_the_sign_in_and_comes_back(lab: Lab) -> None:
    lab.ann.user.set_password("secret")
    lab.ann.user.save()
    client = Client()

    away = client.get("/queue?flavor=l40s")
    back = client.post(away["Location"], {"username": "ann", "password": "secret", "next": "/queue?flavor=l40s"})

    assert away["Location"] == "/login?next=/queue%3Fflavor%3Dl40s"
    assert back["Location"] == "/queue?flavor=l40s"


@pytest.mark.usefixtures("lab")
def test_an_expired_session_sends_the_whole_page_to_the_sign_in_not_a_fragment() -> None:
    response = Client().get(
        "/jobs?part=list",
        headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/jobs?state=active"},
    )

    assert response.status_code == 200
    assert response["HX-Redirect"] == "/login?next=%2Fjobs%3Fstate%3Dactive"
    assert response.content == b""


@pytest.mark.usefixtures("lab")
def test_a_wrong_password_keeps_the_name_and_says_so() -> None:
    response = Client().post("/login", {"username": "ann", "password": "wrong"})

    text = response.content.decode()
    assert 'value="ann"' in text
    assert "correct username and password" in text


def test_old_data_is_never_shown_as_current(lab: Lab) -> None:
    Decision.objects.create(
        at=timezone.now() - timedelta(minutes=5), digest="d", classes=0, admissions=0, tasks=0, units=0
    )

    text = browser(lab.ann).get("/").content.decode()

    assert "last decided 5 min ago" in text
    assert "nothing starts until it runs again" in text


def test_a_cluster_that_does_not_answer_is_named(lab: Lab) -> None:
    Decision.objects.create(at=timezone.now(), digest="d", classes=0, admissions=0, tasks=0, units=0)
    ClusterState.objects.update(unreachable_since=timezone.now() - timedelta(minutes=3))

    text = browser(lab.ann).get("/nodes").content.decode()

    assert "Cluster default has not answered for 3 min" in text


def test_only_those_who_may_see_decisions_have_them_in_the_navigation(lab: Lab) -> None:
    assert "/admin/decisions" in browser(lab.auditor).get("/").content.decode()
    assert "/admin/decisions" not in browser(lab.ann).get("/").content.decode()
    assert browser(lab.ann).get("/admin/decisions").status_code == 403


def test_the_theme_is_remembered_without_javascript(lab: Lab) -> None:
    client = browser(lab.ann)

    response = client.post("/theme", {"theme": "dark", "next": "/queue"})

    assert response["Location"] == "/queue"
    assert 'data-theme="dark"' in client.get("/queue").content.decode()


def test_nobody_is_sent_to_another_site(lab: Lab) -> None:
    response = browser(lab.ann).post("/theme", {"theme": "dark", "next": "https://evil.example/"})

    assert response["Location"] == "/"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("/jobs", "You have no active jobs"),
        ("/jobs?view=all&q=nothing", "No job matches"),
        ("/queue", "Nothing waits for h100"),
        ("/nodes?q=nothing", "No node matches"),
        ("/me/tokens", "No tokens yet"),
    ],
)
def test_what_is_empty_says_why_and_what_to_do(lab: Lab, page: str, words: str) -> None:
    assert words in browser(lab.ann).get(page).content.decode()


def test_who_is_in_no_team_is_told_how_to_get_in(lab: Lab) -> None:
    lab.ann.user.memberships.all().delete()
    client = browser(lab.ann)

    assert "You are in no team yet" in client.get("/jobs").content.decode()
    assert "You may not submit jobs yet" in client.get("/jobs/new").content.decode()


def test_the_map_names_no_job_of_a_team_that_one_does_not_see(lab: Lab, shown: dict[str, Any]) -> None:
    ours = browser(lab.ann).get("/?part=map").content.decode()
    theirs = browser(lab.carl).get("/?part=map").content.decode()

    assert "runs" in ours
    assert str(shown["running"]) not in theirs
    assert "another team" in theirs


def test_a_form_that_is_out_of_date_is_refused_in_words(lab: Lab) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.ann.user)

    response = client.post("/theme", {"theme": "dark"})

    assert response.status_code == 403
    assert "Nothing was changed: load the page again." in response.content.decode()


def test_a_crowded_map_has_one_square_a_machine(lab: Lab) -> None:
    for number in range(70):
        node(lab.cluster, f"x{number:02}", lab.h100)

    text = browser(lab.ann).get("/?part=map").content.decode()

    assert "76 nodes" in text
    assert text.count('class="sum') == 76
