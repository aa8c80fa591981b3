"""Numbers and times as pages draw them."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from queues.queries import queue_order
from queues.queries.rows.lines import OrderRow, QueueOrder
from queues.queries.rows.machines import Cell, NodeRow
from queues.queries.rows.shares import FlavorNumbers, TeamBar
from queues.templatetags import portal
from queues.views.drawing import bar, bar_groups, flavor_spans, percent
from queues.views.map import gpu_map
from queues.views.phases import Phase, laid_out
from tests.queues.lab import NOW, Lab


def team_bar(**changes: Any) -> TeamBar:  # noqa: ANN401  fields of TeamBar
    plain: dict[str, Any] = {
        "team": "nlp",
        "title": "",
        "parent": None,
        "depth": 0,
        "department": False,
        "flavor": "h100",
        "guaranteed": 40,
        "borrow_limit": 16,
        "lend_limit": None,
        "used": 0,
        "inside": 0,
        "borrowed": 0,
        "lent": 0,
        "waiting": 0,
        "mine": True,
        "starved": False,
    }
    return TeamBar(**{**plain, **changes})


def drawn(row: TeamBar, scale: int) -> list[tuple[str, str, str]]:
    return [(span.kind, span.x, span.width) for span in bar(row, scale).spans]


def test_a_bar_shows_what_is_inside_then_borrowed() -> None:
    assert drawn(team_bar(used=48, inside=40, borrowed=8), 80) == [
        ("inside", "0.00%", "50.00%"),
        ("borrowed", "50.00%", "10.00%"),
    ]


def test_a_bar_shows_what_of_the_guarantee_is_free_and_what_is_lent() -> None:
    assert drawn(team_bar(used=10, inside=10, lent=20), 40) == [
        ("inside", "0.00%", "25.00%"),
        ("idle", "25.00%", "25.00%"),
        ("lent", "50.00%", "50.00%"),
    ]


def test_ticks_stand_at_the_guarantee_and_at_the_borrow_limit() -> None:
    limited, free = bar(team_bar(), 80), bar(team_bar(borrow_limit=None), 80)

    assert (limited.guarantee, limited.limit) == ("50.00%", "70.00%")
    assert free.limit == ""


def test_lines_of_a_flavor_share_the_scale_of_the_longest() -> None:
    groups = bar_groups([team_bar(), team_bar(team="cv", guaranteed=8, borrow_limit=None, used=90)])

    assert [(group.flavor, group.scale) for group in groups] == [("h100", 90)]


def test_an_empty_flavor_draws_nothing_and_divides_by_nothing() -> None:
    row = FlavorNumbers(
        flavor="h100",
        title="",
        installed=0,
        in_use=0,
        free=0,
        not_usable=0,
        outside=0,
        waiting_units=0,
        waiting_jobs=0,
        guaranteed=0,
        unassigned=0,
    )

    assert flavor_spans(row) == ()
    assert percent(0, 0) == "0%"


def test_a_short_phase_stays_visible_and_the_bar_stays_full() -> None:
    times = (timedelta(hours=10), timedelta(seconds=1), timedelta(hours=10))
    placed = laid_out([Phase(title="p", owner="", kind="run", length=time) for time in times])

    widths = [float(phase.width.rstrip("%")) for phase in placed]
    assert widths[1] > 1
    assert sum(widths) == pytest.approx(100, abs=0.05)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (41, "41 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (7500, "2 h 05 min"),
        (86400, "1 d"),
        (86400 * 3 + 7200, "3 d 2 h"),
    ],
)
def test_lengths_are_said_in_the_two_units_that_matter(seconds: int, words: str) -> None:
    assert portal.length_text(seconds) == words


def test_a_relative_time_carries_the_exact_one() -> None:
    assert portal.ago(NOW - timedelta(minutes=5), NOW) == (
        '<time datetime="2026-11-29T11:55:00+00:00" title="2026-11-29 11:55:00 UTC">5 min ago</time>'
    )
    assert ">in 2 h<" in portal.ago(NOW + timedelta(hours=2), NOW)
    assert portal.ago(None, NOW) == ""


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1536, "1.5 KiB"), (16 * 2**30, "16 GiB"), (3 * 2**50, "3072 TiB")]
)
def test_memory_is_said_in_binary_units(size: int, words: str) -> None:
    assert portal.byte_size(size) == words


def order(*starts: bool, free: int = 14) -> QueueOrder:
    rows = tuple(
        OrderRow(rank=number, units=8, units_ahead=0, starts_next=next_, job=None)
        for number, next_ in enumerate(starts, 1)
    )
    return QueueOrder(
        flavor="h100", free=free, rows=rows, permanent=(), waiting_jobs=len(rows), waiting_units=0, as_of=NOW
    )


@pytest.mark.parametrize(
    ("starts", "lines"),
    [
        ((), [""]),
        ((True, True), [""]),
        ((True, False), ["14 free: up to row 1 start next; no row below starts now", ""]),
        ((False, False), ["14 free: no row below starts now", ""]),
        ((True, False, True), ["14 free: up to row 1 start next; row 2 waits for something else", ""]),
    ],
)
def test_a_rule_stands_where_the_free_units_end(starts: tuple[bool, ...], lines: list[str]) -> None:
    assert [group.line for group in portal.tide(order(*starts))] == lines


def test_the_rule_says_how_many_the_next_gang_needs_together(lab: Lab) -> None:
    lab.start(lab.submit(gpus="h100:8"))
    lab.submit(name="big", shape="gang", tasks=4, gpus="h100:8")

    shown = queue_order(lab.ann, "h100", now=NOW)

    assert [group.line for group in portal.tide(shown)] == ["24 free: row 1 needs 32 together", ""]


def node(number: int, *cells: Cell, flavor: str = "h100", **changes: Any) -> NodeRow:  # noqa: ANN401  fields of NodeRow
    used = sum(cell.units for cell in cells)
    plain: dict[str, Any] = {
        "id": number,
        "name": f"n{number}",
        "cluster": "c",
        "flavor": flavor,
        "place": ("r1",),
        "units": 8,
        "used": used,
        "outside": 0,
        "free": 8 - used,
        "usable": True,
        "state": "ready",
        "why": "",
        "cells": cells,
    }
    return NodeRow(**{**plain, **changes})


def task(units: int, **changes: Any) -> Cell:  # noqa: ANN401  fields of Cell
    return Cell(**{"units": units, "state": "running", "team": "nlp", "job": uuid4(), **changes})


def test_a_machine_is_drawn_to_its_last_unit() -> None:
    shown = gpu_map([node(1, task(4), task(1), outside=1)], {"nlp": "c0"}, mode="team", only_mine=False)

    squares = shown.places[0].rows[0].squares
    assert [(square.span, square.kind) for square in squares] == [
        (4, "task"),
        (1, "task"),
        (1, "outside"),
        (1, "free"),
        (1, "free"),
    ]
    assert squares[0].hue == "c0"


def test_what_cannot_be_used_is_not_shown_as_free() -> None:
    shown = gpu_map([node(1, usable=False, why="cordoned")], {}, mode="team", only_mine=False)

    assert {(square.kind, square.text) for square in shown.places[0].rows[0].squares} == {("gone", "cordoned")}


def test_a_job_that_one_may_not_see_has_neither_colour_nor_name() -> None:
    shown = gpu_map([node(1, Cell(units=8, state="running"))], {"nlp": "c0"}, mode="user", only_mine=False)

    square = shown.places[0].rows[0].squares[0]
    assert (square.kind, square.hue, square.text) == ("other", "", "another team")


def test_more_than_64_machines_fold_to_one_square_each() -> None:
    shown = gpu_map([node(number, task(2)) for number in range(65)], {}, mode="team", only_mine=False)

    assert shown.dense
    assert [square.short for square in shown.places[0].rows[0].squares] == ["2/8"]
    assert [(title, len(rows)) for title, rows in shown.crowd] == [("h100 · r1", 12), *[("", 12)] * 4, ("", 5)]


def test_machines_of_a_gpu_type_stand_together() -> None:
    shown = gpu_map([node(1), node(2, flavor="l40s"), node(3, place=("r2",))], {}, mode="team", only_mine=False)

    assert [place.title for place in shown.places] == ["h100 · r1", "h100 · r2", "l40s · r1"]
