"""The words of reasons."""

from datetime import UTC, datetime

import pytest

from queues import wording
from queues.admission.reasons import Code
from queues.progress import Trouble

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NUMBERS: dict[str, int | str] = {
    "flavor": "h100",
    "needs": 16,
    "free": 4,
    "largest_block": 2,
    "largest_node": 8,
    "limit": 12,
    "used": 10,
    "usable": 24,
    "installed": 32,
    "terminating": 8,
    "team": "nlp",
    "queue": "night",
    "labels": "zone=a",
    "ahead": "cv",
}


@pytest.mark.parametrize("code", [*Code, *Trouble, wording.NOT_DECIDED])
def test_every_code_has_a_sentence_that_ends_and_asks_nothing(code: str) -> None:
    told = wording.sentence(code, NUMBERS)

    assert code in wording.SENTENCES
    assert told.endswith(".")
    assert "?" not in told


@pytest.mark.parametrize("code", list(Code))
def test_every_decision_s_code_has_the_rule_behind_it(code: Code) -> None:
    assert wording.rule(code).endswith(".")


def test_situations_that_need_another_action_read_differently() -> None:
    told = [wording.sentence(code, NUMBERS) for code in Code]

    assert len(set(told)) == len(told)


@pytest.mark.parametrize(
    ("code", "numbers", "says"),
    [
        (
            "HOLDS",
            {"at": 1_795_953_600_000},
            "Holds its place: planned to start with 16 h100 at 2026-11-29 12:00 UTC, sooner if others end early.",
        ),
        (
            "HOLDS",
            {},
            "Holds its place: what frees there is kept until it has 16 h100; endless jobs are in its way.",
        ),
        (
            "WAITS_VICTIMS",
            {},
            "16 h100 are reserved for it: it starts when the jobs that give way to it are gone.",
        ),
        (
            "CAPACITY_REDUCED",
            {"claim": 3, "node": "n7"},
            "16 h100 are reserved for it: it starts when node n7 can take work again.",
        ),
        ("NO_FREE_CAPACITY", {"free": 0}, "Needs 16 h100; none is free."),
        ("EXCEEDS_NODE", {"needs": 4}, "Can never start: a task's CPU or memory is more than any h100 node has."),
        ("NO_MATCHING_NODE", {"labels": ""}, "Can never start: there is no h100 node."),
        ("TEAM_LIMIT", {}, "Needs 16 h100; nlp uses 10 of the 12 that it may have."),
        ("BEHIND", {}, "Needs 16 h100; what was free went to cv, which was before it in the order."),
    ],
)
def test_sentences_carry_the_numbers(code: str, numbers: dict[str, int | str], says: str) -> None:
    assert wording.sentence(code, {**NUMBERS, **numbers}) == says


def test_a_code_of_a_later_version_is_still_told() -> None:
    assert wording.sentence("MOON_PHASE", {}) == "Waiting: moon phase."


@pytest.mark.parametrize(
    ("running", "starting", "grows_from", "stalled", "says"),
    [
        (1, 1, None, "", "1 of 2 tasks run; with all of them it may grow to 6."),
        (6, 0, None, "", "Runs with 6 of at most 6 tasks, minimum 2."),
        (4, 2, None, "", "Runs with 4 of at most 6 tasks, minimum 2; 2 more start."),
        (4, 0, None, "TEAM_LIMIT", "…; up to 2 more when the limits of its team leave room."),
        (4, 0, None, "USER_LIMIT", "…; up to 2 more when its owner's limit leaves room."),
        (4, 0, None, "LEND_LIMIT", "…; up to 2 more when those who have idle GPUs lend them."),
        (4, 0, None, "WOULD_DELAY", "…; up to 2 more when what is free is no longer kept for other jobs."),
        (4, 0, None, "NO_FREE_CAPACITY", "…; up to 2 more when GPUs are free that nobody else needs."),
        (4, 0, NOON, "", "…. It gave GPUs back and grows again from 12:00 UTC on, where others leave room."),
        (4, 0, NOON, "TEAM_LIMIT", "…; up to 2 more when the limits of its team leave room."),
    ],
)
def test_an_elastic_job_says_what_it_has_and_when_it_gets_more(
    running: int, starting: int, grows_from: datetime | None, stalled: str, says: str
) -> None:
    told = wording.growth(2, 6, running, starting, grows_from, stalled)

    assert told == says.replace("…", f"Runs with {running} of at most 6 tasks, minimum 2")
