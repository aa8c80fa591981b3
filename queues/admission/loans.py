"""Whose units a borrower uses: the ledger's sums split between borrowers and lenders (SEMANTICS 2). It never decides.

A lender is a team's id, ``UNASSIGNED`` for what is promised to nobody, ``OVER`` for what no idle unit covers. Each
borrower, in order of id, takes from the lenders in proportion to what they have still to lend, largest remainder
first, ties by the lenders' order: all sums of the ledger come out exactly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from queues.admission.quota import Ledger, pro_rata
from queues.admission.world import World

UNASSIGNED = 0
OVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """``units`` of a flavor that ``borrower`` (a team, or an attempt of one) has from ``lender``."""

    flavor: int
    borrower: int
    lender: int
    units: int


def between_teams(ledger: Ledger) -> tuple[Part, ...]:
    """Return who borrows from whom, by leaf."""
    found: list[Part] = []
    for loan in ledger.loans:
        lent = {UNASSIGNED if lender is None else lender: units for lender, units in loan.lent}
        lent |= {OVER: loan.over_lending} if loan.over_lending else {}
        found += _split(loan.flavor, loan.borrowed, lent)
    return tuple(found)


def by_attempt(ledger: Ledger, world: World, parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return which attempt has units of whom: the parts of each team split between its borrowed attempts."""
    teams = {attempt.id: attempt.team for attempt in world.attempts}
    lent: dict[tuple[int, int], dict[int, int]] = {}
    for part in parts:
        lent.setdefault((part.flavor, part.borrower), {})[part.lender] = part.units
    borrowed: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for attempt, flavor, units in ledger.attempts:
        borrowed.setdefault((flavor, teams[attempt]), []).append((attempt, units))
    return tuple(part for key, rows in sorted(borrowed.items()) for part in _split(key[0], rows, lent.get(key, {})))


def _split(flavor: int, borrowed: Iterable[tuple[int, int]], lent: Mapping[int, int]) -> list[Part]:
    left, found = dict(lent), []
    for borrower, units in borrowed:
        for lender, part in pro_rata(units, left.items()):
            left[lender] -= part
            found.append(Part(flavor=flavor, borrower=borrower, lender=lender, units=part))
    return found
