"""Loans as both sides see them."""

from collections import Counter

import pytest

from queues import queries
from queues.models import Job, Wave
from queues.queries.rows.shares import TeamLoans
from tenants.errors import NotFound
from tenants.models import Quota
from tests.queues.api.test_jobs import client
from tests.queues.lab import NOW, Lab
from tests.queues.test_views_pages import browser


@pytest.fixture
def lent(lab: Lab) -> Lab:
    """Let cv (8 guaranteed) use 16 of 32: nlp lends 4 of its idle 16, bio 2 of 8, none is lent by nobody."""
    Quota.objects.filter(team=lab.bio).update(guaranteed=8)
    job = lab.submit(lab.carl, name="vision", team="cv", gpus="h100:8", shape="gang", tasks=2)
    lab.start(job, *lab.nodes[:2])
    return lab


def of(by: object, team: str) -> TeamLoans:
    (row,) = queries.loans(by, team=team)  # type: ignore[arg-type]
    return row


def test_the_borrower_sees_from_whom_and_by_which_job(lent: Lab) -> None:
    found = of(lent.root, "cv")

    # 8 borrowed of 16 + 8 idle: 5 1/3 and 2 2/3, largest remainder to bio.
    assert (found.borrowed, found.lent) == (8, 0)
    assert [(side.team, side.units) for side in found.lenders] == [("nlp", 5), ("bio", 3)]
    assert [(job.name, job.owner, job.units) for job in found.jobs] == [("vision", "carl", 8)]


def test_the_lender_sees_to_whom(lent: Lab) -> None:
    found = of(lent.root, "nlp")

    assert (found.borrowed, found.lent) == (0, 5)
    assert [(side.team, side.units, side.jobs[0].name, side.jobs[0].units) for side in found.borrowers] == [
        ("cv", 5, "vision", 5)
    ]


def test_a_department_sees_what_crosses_its_border(lent: Lab) -> None:
    ai, life = of(lent.root, "ai"), of(lent.root, "life")

    assert (ai.department, ai.borrowed, ai.lent) == (True, 3, 0)
    assert [(side.team, side.units) for side in ai.lenders] == [("bio", 3)]
    assert (life.borrowed, life.lent) == (0, 3)


def test_bars_and_loans_mean_the_same_by_borrowed_and_lent(lent: Lab) -> None:
    bars = {bar.team: bar for bar in queries.team_bars(lent.root, now=NOW, flavor="h100")}

    told = {row.team: (row.borrowed, row.lent) for row in queries.loans(lent.root, flavor="h100")}

    assert {name: (bar.borrowed, bar.lent) for name, bar in bars.items() if bar.borrowed or bar.lent} == told
    assert told["ai"] == (3, 0)
    # Of the 16 that ai uses 3 come over its border: they are not drawn inside its guarantee.
    assert (bars["ai"].used, bars["ai"].inside, bars["ai"].guaranteed) == (16, 13, 24)


def test_who_does_not_see_the_other_team_sees_units_only(lent: Lab) -> None:
    mine, theirs = of(lent.ann, "nlp"), of(lent.carl, "cv")

    assert [(side.kind, side.text, side.units, side.jobs) for side in mine.borrowers] == [
        ("others", "other teams", 5, ())
    ]
    assert [(side.kind, side.units) for side in theirs.lenders] == [("others", 8)]
    with pytest.raises(NotFound):
        queries.loans(lent.ann, team="cv")


def test_loans_over_http_name_only_what_one_sees(lent: Lab) -> None:
    seen = client(lent.ann)

    body = seen.get("/api/v1/loans?flavor=h100").json()

    assert [(row["team"], row["lent"], row["borrowers"][0]["kind"]) for row in body["items"]] == [("nlp", 5, "others")]
    assert "vision" not in str(body)
    assert seen.get("/api/v1/loans?team=cv").status_code == 404


def test_the_pages_show_loans_in_words_and_as_a_picture(lent: Lab) -> None:
    client = browser(lent.root)

    team, overview = (client.get(page).content.decode() for page in ("/teams/cv", "/"))

    assert "Borrows 8 h100: 5 from nlp, 3 from bio" in team
    assert "vision" in team
    assert "Whose GPUs are borrowed" in overview


def test_where_nobody_borrows_there_are_no_loans(lab: Lab) -> None:
    lab.start(lab.submit(gpus="h100:8", now=NOW))

    assert queries.loans(lab.root) == ()
    assert "Nothing is borrowed" in browser(lab.root).get("/teams/nlp").content.decode()


def on_the_map(lab: Lab) -> Counter[str]:
    """Count the borrowed units on the map, by job."""
    counts: Counter[str] = Counter()
    for cell in (cell for row in queries.allocation(lab.root) for cell in row.cells if cell.borrowed):
        counts[cell.job_name] += cell.borrowed_units
    return counts


def test_the_map_hatches_what_is_borrowed_now_and_not_what_was_when_it_was_admitted(lent: Lab) -> None:
    found = [on_the_map(lent)]
    for guaranteed in (12, 16):
        Quota.objects.filter(team=lent.cv).update(guaranteed=guaranteed)
        found.append(on_the_map(lent))

    assert not Wave.objects.get().borrowed
    assert found == [{"vision": 8}, {"vision": 4}, {}]


def test_map_and_loans_name_the_same_jobs_with_the_same_borrowed_units(lent: Lab) -> None:
    firm = lent.submit(lent.carl, name="firm", team="cv", gpus="h100:1", borrow=False)
    lent.start(firm, lent.nodes[2])
    lent.start(lent.submit(lent.carl, name="other", team="cv", gpus="l40s:4"), lent.nodes[4])
    for number in range(5):
        job = lent.submit(name=f"own-{number}", gpus="h100:3", shape="independent", tasks=1 + number % 2)
        lent.start(job, *lent.nodes[2:4])

    told: Counter[str] = Counter()
    for row in queries.loans(lent.root):
        told.update({job.name: job.units for job in row.jobs if not row.department})

    # Of cv's 17 the one that may not be recalled is inside its 8 first; nlp has 16 of its 16 + 5.
    assert on_the_map(lent) == told
    assert (told["vision"], told["firm"], told["own-4"]) == (9, 0, 3)


def test_a_task_of_which_a_part_is_borrowed_says_how_much(lent: Lab) -> None:
    Quota.objects.filter(team=lent.cv).update(guaranteed=12)
    page = browser(lent.root)

    overview, node = page.get("/").content.decode(), page.get("/nodes/default/h1").content.decode()

    assert "4 of them borrowed" in overview
    assert "4 borrowed" in node


def test_a_job_s_page_says_whose_units_it_has_now(lent: Lab) -> None:
    job, page = Job.objects.get(), browser(lent.root)
    address = f"/jobs/{job.uid}"

    borrows = [page.get(address + tab).content.decode() for tab in ("", "?tab=tasks")]
    Quota.objects.filter(team=lent.cv).update(guaranteed=16)
    owns = [page.get(address + tab).content.decode() for tab in ("", "?tab=tasks")]

    assert "On borrowed GPUs" in borrows[0]
    assert "Inside the guarantee of cv" in owns[0]
    assert "borrowed</span>" in borrows[1]
    assert "inside the guarantee" in owns[1]
