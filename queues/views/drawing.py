"""Numbers turned into SVG lengths, as text in percent: bars of teams and of phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from queues.queries.rows.shares import FlavorNumbers, LoanSide, TeamBar, TeamLoans


def percent(part: float, whole: float) -> str:
    """Return a share as an SVG length, whatever the language writes for a decimal point."""
    return f"{100 * part / whole:.2f}%" if whole else "0%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a bar: where it starts and how wide it is, what it means, and its class."""

    x: str
    width: str
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A team's line: its spans over a scale that all lines of a flavor share, and ticks at guarantee and limit."""

    row: TeamBar
    spans: tuple[Span, ...]
    guarantee: str
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BarGroup:
    """The lines of one flavor; ``scale`` is the number of units at the right end."""

    flavor: str
    scale: int
    bars: tuple[Bar, ...]


def spans(pieces: Iterable[tuple[float, str, str]], whole: float) -> tuple[Span, ...]:
    """Return pieces of (size, kind, text) one after the other; those of no size are left out."""
    found, at = [], 0.0
    for size, kind, text in pieces:
        if size > 0:
            found.append(Span(x=percent(at, whole), width=percent(size, whole), kind=kind, text=text))
        at += size
    return tuple(found)


def bar_groups(rows: Iterable[TeamBar]) -> tuple[BarGroup, ...]:
    """Return the lines of each flavor on its own scale, in the order of the rows."""
    by_flavor: dict[str, list[TeamBar]] = {}
    for row in rows:
        by_flavor.setdefault(row.flavor, []).append(row)
    groups = []
    for flavor, lines in by_flavor.items():
        scale = max(1, *(max(row.used, row.guaranteed + (row.borrow_limit or 0)) for row in lines))
        groups.append(BarGroup(flavor=flavor, scale=scale, bars=tuple(bar(row, scale) for row in lines)))
    return tuple(groups)


def bar(row: TeamBar, scale: int) -> Bar:
    """Return one team's line: used inside, borrowed, then what is free of its guarantee and what of it is lent."""
    idle = max(0, row.guaranteed - row.used)
    lent = min(row.lent, idle)
    pieces = (
        (row.inside, "inside", f"{row.inside} inside the guarantee"),
        (row.borrowed, "borrowed", f"{row.borrowed} borrowed"),
        (idle - lent, "idle", f"{idle - lent} free of the guarantee"),
        (lent, "lent", f"{row.lent} lent to others"),
    )
    limit = "" if row.borrow_limit is None else percent(row.guaranteed + row.borrow_limit, scale)
    return Bar(row=row, spans=spans(pieces, scale), guarantee=percent(row.guaranteed, scale), limit=limit)


def flavor_spans(row: FlavorNumbers) -> tuple[Span, ...]:
    """Return how the units of a flavor are spent."""
    pieces = (
        (row.in_use, "used", f"{row.in_use} in use"),
        (row.outside, "outside", f"{row.outside} used outside Tidegate"),
        (row.free, "free", f"{row.free} free"),
        (row.not_usable, "gone", f"{row.not_usable} not usable"),
    )
    return spans(pieces, max(1, row.in_use + row.outside + row.free + row.not_usable))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanBar:
    """One side of a team's loans on a flavor: ``spans`` over a scale that both sides share; a span a team."""

    title: str
    units: int
    spans: tuple[Span, ...]
    sides: tuple[LoanSide, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanBars:
    """What a team borrows and what it lends on a flavor."""

    row: TeamLoans
    sides: tuple[LoanBar, ...]


def loan_bars(row: TeamLoans, palette: Mapping[str, str]) -> LoanBars:
    """Return a team's loans as two bars, each piece in the colour of the other team."""
    scale = max(1, row.borrowed, row.lent)
    sides = (("Borrows", "from", row.borrowed, row.lenders), ("Lends", "to", row.lent, row.borrowers))
    return LoanBars(
        row=row,
        sides=tuple(
            LoanBar(
                title=title,
                units=units,
                spans=spans(
                    ((each.units, palette.get(each.team, ""), f"{each.units} {way} {each.text}") for each in found),
                    scale,
                ),
                sides=found,
            )
            for title, way, units, found in sides
        ),
    )
