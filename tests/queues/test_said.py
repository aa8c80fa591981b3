"""Verdicts between decisions: only what differs is written, and only who did not decide last reads them."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from types import FrameType

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from queues import said
from queues.admission.decide import Verdict as Said
from queues.admission.reasons import Code, Reason
from queues.models import Decision, Job, Spare, Verdict
from queues.queries.reasons import Reasons
from tenants.models import User
from tests.queues.lab import MINUTE, NOW, Lab

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lab(transactional_db: None) -> Iterator[Lab]:  # noqa: ARG001  asks for the database
    said.forget()
    yield Lab()
    said.forget()


def decide(lab: Lab, code: Code, *, minute: int = 0, units: int = 1) -> tuple[int, list[str]]:
    """Say one verdict in a new cycle; return how many rows changed, and the statements on verdicts."""
    job = lab.job_class  # type: ignore[attr-defined]
    cycle = Decision.objects.create(at=NOW, digest="d", classes=1, admissions=0, tasks=0, units=0).id
    verdict = Said(job_class=job, user=None, reason=Reason(code=code, numbers=(("needs", units),)))
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        changed = said.keep([verdict], now=NOW + minute * MINUTE, cycle=cycle)
    return changed, [query["sql"][:6] for query in queries if "queues_verdict" in query["sql"]]


def people(count: int) -> list[int]:
    """Make so many users; return their ids."""
    made = User.objects.bulk_create(User(username=f"u{number}") for number in range(count))
    return [user.id for user in made]


@pytest.fixture
def waits(lab: Lab) -> Lab:
    lab.job_class = lab.submit().job_class_id  # type: ignore[attr-defined]
    return lab


def test_who_decided_last_reads_nothing_and_writes_only_what_differs(waits: Lab) -> None:
    first = decide(waits, Code.BEHIND)
    same = decide(waits, Code.BEHIND, minute=1)
    other = decide(waits, Code.FRAGMENTED, minute=2)

    assert first == (1, ["SELECT", "INSERT"])
    assert same == (0, [])
    assert other == (1, ["INSERT"])
    row = Verdict.objects.get()
    assert (row.code, row.since) == ("FRAGMENTED", NOW + 2 * MINUTE)


def test_numbers_may_change_while_the_reason_stays_since_when_it_began(waits: Lab) -> None:
    decide(waits, Code.BEHIND)
    decide(waits, Code.BEHIND, minute=1, units=2)

    row = Verdict.objects.get()
    assert (row.numbers, row.since) == ({"needs": 2}, NOW)


def test_after_another_process_has_decided_the_rows_are_read(waits: Lab) -> None:
    decide(waits, Code.BEHIND)
    Verdict.objects.update(code="FRAGMENTED")
    Decision.objects.create(at=NOW, digest="d", classes=1, admissions=0, tasks=0, units=0)

    assert decide(waits, Code.BEHIND, minute=1) == (1, ["SELECT", "INSERT"])
    assert Verdict.objects.get().code == "BEHIND"


def test_what_was_rolled_back_is_not_remembered(waits: Lab) -> None:
    decide(waits, Code.BEHIND)
    with transaction.atomic():
        cycle = Decision.objects.create(at=NOW, digest="d", classes=1, admissions=0, tasks=0, units=0).id
        said.keep([], now=NOW, cycle=cycle)
        transaction.set_rollback(True)

    assert decide(waits, Code.BEHIND)[0] == 0
    assert Verdict.objects.get().code == "BEHIND"


def steps(lab: Lab, verdicts: list[Said]) -> Counter[str]:
    """Say these in a new cycle; return how often that called each function of ours."""
    cycle = Decision.objects.create(at=NOW, digest="d", classes=1, admissions=0, tasks=0, units=0).id
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == said.__file__:
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    with transaction.atomic():
        sys.setprofile(note)
        try:
            said.keep(verdicts, {row.job_class: lab.nlp.id for row in verdicts}, now=NOW, cycle=cycle)
        finally:
            sys.setprofile(before)
    return calls


def lacking(lab: Lab, users: Sequence[int], *, needs: int = 8) -> list[Said]:
    """Return one verdict for each user, each with a reason of its own that tells what is left."""
    job_class = lab.job_class  # type: ignore[attr-defined]
    numbers: dict[str, int | str] = {"flavor": "h100", "needs": needs, "free": 6, "largest_block": 3}
    numbers |= {"team_left": 2, "may_borrow": 1}
    return [
        Said(
            job_class=job_class,
            user=user,
            reason=Reason(code=Code.NO_FREE_CAPACITY, numbers=tuple(sorted({**numbers, "user": user}.items()))),
        )
        for user in users
    ]


def test_what_is_said_again_costs_the_same_however_much_it_is(waits: Lab) -> None:
    ids = people(60)
    verdicts = lacking(waits, ids)
    steps(waits, verdicts)

    again = steps(waits, verdicts)
    steps(waits, verdicts[:10])
    few = steps(waits, verdicts[:10])

    assert again == few
    assert Verdict.objects.count() == 10


def test_of_what_is_said_again_beside_something_new_no_reason_is_split_again(waits: Lab) -> None:
    ids = people(60)
    verdicts = lacking(waits, ids)
    steps(waits, verdicts)

    changed = steps(waits, [*lacking(waits, ids[:1], needs=4), *verdicts[1:]])

    assert changed["_split"] == 1
    assert Verdict.objects.filter(numbers__needs=4).count() == 1
    assert Spare.objects.get().teams == {str(waits.nlp.id): [2, 1]}


def short_of(lab: Lab, *, free: int, left: int, needs: int = 8) -> int:
    """Say in a new cycle that a class of nlp lacks room; return how many verdicts changed."""
    cycle = Decision.objects.create(at=NOW, digest="d", classes=1, admissions=0, tasks=0, units=0).id
    numbers: dict[str, int | str] = {"flavor": "h100", "needs": needs, "free": free, "largest_block": free // 2}
    numbers |= {"team_left": left, "may_borrow": 3}
    job_class = lab.job_class  # type: ignore[attr-defined]
    reason = Reason(code=Code.NO_FREE_CAPACITY, numbers=tuple(sorted(numbers.items())))
    verdict = Said(job_class=job_class, user=None, reason=reason)
    with transaction.atomic():
        return said.keep([verdict], {job_class: lab.nlp.id}, now=NOW, cycle=cycle)


def test_what_is_left_of_a_gpu_type_is_written_once_and_changes_no_verdict(waits: Lab) -> None:
    first = short_of(waits, free=6, left=2)
    moved = short_of(waits, free=4, left=1)
    needs = short_of(waits, free=4, left=1, needs=7)

    assert (first, moved, needs) == (1, 0, 1)
    assert Verdict.objects.get().numbers == {"flavor": "h100", "needs": 7}
    spare = Spare.objects.get()
    assert (spare.free, spare.largest_block, spare.teams) == (4, 2, {str(waits.nlp.id): [1, 3]})


def test_who_reads_a_reason_reads_what_is_left_with_it(waits: Lab) -> None:
    short_of(waits, free=6, left=2)
    short_of(waits, free=4, left=1)
    job = Job.objects.select_related("queue").get()

    with CaptureQueriesContext(connection) as queries:
        reason = Reasons([job], waits.ann, NOW).of(job)

    assert reason is not None
    assert reason.details == {
        "flavor": "h100",
        "needs": 8,
        "free": 4,
        "largest_block": 2,
        "team_left": 1,
        "may_borrow": 3,
    }
    assert reason.summary == "Needs 8 h100; 4 are free."
    assert len(queries) == 1


def test_another_process_reads_what_is_left_before_it_writes(waits: Lab) -> None:
    short_of(waits, free=6, left=2)
    said.forget()

    with CaptureQueriesContext(connection) as queries:
        again = short_of(waits, free=6, left=2)

    assert again == 0
    assert not any("INSERT" in query["sql"] and "queues_spare" in query["sql"] for query in queries)
