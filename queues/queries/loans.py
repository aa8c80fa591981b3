"""Who lends to whom at this moment, as far as the reader sees both sides."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from queues.admission.loans import OVER, UNASSIGNED, Part, between_teams, by_attempt
from queues.admission.quota import Line, Tree, in_use, ledger
from queues.admission.world import World
from queues.models import Job
from queues.queries.estate import estate, one_moment
from queues.queries.rows.shares import LoanJob, LoanSide, TeamLoans
from tenants.errors import NotFound
from tenants.permissions import Actor, Permission, teams_seen

KINDS = {UNASSIGNED: "unassigned", OVER: "over_lending"}
MOST_JOBS = 50


class _Used(NamedTuple):
    """Units of a loan that one job uses."""

    borrower: int
    lender: int
    job: int
    units: int


def loans(by: Actor, *, team: str = "", flavor: str = "") -> tuple[TeamLoans, ...]:
    """Return what each visible team (or one) borrows from whom and lends to whom, with the jobs that use it."""
    if team and team not in team_names(by).values():
        raise NotFound(f"There is no team {team[:63]}.")
    with one_moment():
        found = loans_with_jobs(estate(by_wave=True), by)
    return tuple(row for row in found if row.team == (team or row.team) and row.flavor == (flavor or row.flavor))


def loans_with_jobs(world: World, by: Actor) -> tuple[TeamLoans, ...]:
    """Return the loans of the visible teams from a world by wave, with the visible jobs that use them."""
    counted = in_use(world)
    book = ledger(world, counted)
    parts = between_teams(book)
    if not parts:
        return ()
    used = _used(world, by_attempt(book, world, parts))
    jobs = _jobs(by, {row.job for rows in used.values() for row in rows})
    return tuple(_rows(counted, parts, team_names(by), used, jobs))


def loans_of(world: World, by: Actor) -> tuple[TeamLoans, ...]:
    """Return the loans of the visible teams from one world, without jobs."""
    counted = in_use(world)
    parts = between_teams(ledger(world, counted))
    return tuple(_rows(counted, parts, team_names(by), {}, {})) if parts else ()


def team_names(by: Actor) -> dict[int, str]:
    """Return the teams of which somebody may see what they use."""
    return {team.id: team.name for team in teams_seen(by, Permission.VIEW_QUOTA)}


def across(tree: Tree, parts: Iterable[Part]) -> tuple[dict[int, list[Part]], dict[int, list[Part]]]:
    """Return what comes in and what goes out over the border of each place.

    What a department's teams lend each other stays inside; its own pool lends too.
    """
    borrowed: dict[int, list[Part]] = defaultdict(list)
    lent: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        to, of = _path(tree, part.borrower), _path(tree, part.lender)
        for place in to - of:
            borrowed[place].append(part)
        for place in of - to:
            lent[place].append(part)
    return borrowed, lent


def _path(tree: Tree, team: int) -> frozenset[int]:
    return frozenset() if team in KINDS else frozenset(tree.path[tree.number[team]])


def _rows(
    counted: tuple[Tree, dict[int, Line]],
    parts: Iterable[Part],
    names: Mapping[int, str],
    used: Mapping[int, list[_Used]],
    jobs: Mapping[int, LoanJob],
) -> Iterator[TeamLoans]:
    tree, lines = counted
    parts = tuple(parts)
    for flavor, line in lines.items():
        borrowed, lent = across(tree, (part for part in parts if part.flavor == flavor))
        for place in range(1, len(tree.parent)):
            if tree.ids[place] in names and (borrowed[place] or lent[place]):
                side = _Side(tree, place, borrowed[place], lent[place], used.get(flavor, ()), names, jobs)
                yield side.row(line.flavor.name)


class _Side:
    """The loans of one team on one flavor."""

    def __init__(
        self,
        tree: Tree,
        place: int,
        borrowed: Iterable[Part],
        lent: Iterable[Part],
        used: Iterable[_Used],
        names: Mapping[int, str],
        jobs: Mapping[int, LoanJob],
    ) -> None:
        self._names, self._jobs = names, jobs
        self.team = names[tree.ids[place]]
        self.department = bool(tree.children[place])
        self.borrowed, self.lent = tuple(borrowed), tuple(lent)
        # Which jobs use it, for the pairs of teams that cross the border.
        here, there = ({(part.borrower, part.lender) for part in some} for some in (self.borrowed, self.lent))
        self.used_here = [row for row in used if (row.borrower, row.lender) in here]
        self.used_there = [row for row in used if (row.borrower, row.lender) in there]

    def row(self, flavor: str) -> TeamLoans:
        return TeamLoans(
            team=self.team,
            department=self.department,
            flavor=flavor,
            borrowed=sum(part.units for part in self.borrowed),
            lent=sum(part.units for part in self.lent),
            lenders=self._sides(
                ((part.lender, part.units) for part in self.borrowed), [(row.lender, row) for row in self.used_here]
            ),
            borrowers=self._sides(
                ((part.borrower, part.units) for part in self.lent), [(row.borrower, row) for row in self.used_there]
            ),
            jobs=self._told(self.used_here),
        )

    def _sides(self, parts: Iterable[tuple[int, int]], used: Iterable[tuple[int, _Used]]) -> tuple[LoanSide, ...]:
        """Return the other sides, those that may not be named as one; most units first, what is no team last."""
        units: dict[tuple[str, str], int] = defaultdict(int)
        rows: dict[tuple[str, str], list[_Used]] = defaultdict(list)
        for other, count in parts:
            units[self._key(other)] += count
        for other, row in used:
            rows[self._key(other)].append(row)
        order = sorted(units, key=lambda key: (not key[1], -units[key], key))
        return tuple(
            LoanSide(kind=kind, team=team, units=units[kind, team], jobs=self._told(rows[kind, team]))
            for kind, team in order
        )

    def _key(self, other: int) -> tuple[str, str]:
        if other in KINDS:
            return KINDS[other], ""
        return ("team", self._names[other]) if other in self._names else ("others", "")

    def _told(self, used: Iterable[_Used]) -> tuple[LoanJob, ...]:
        """Return the visible ones of some jobs, most units first."""
        units: dict[int, int] = defaultdict(int)
        for row in used:
            units[row.job] += row.units
        shown = sorted((-count, job) for job, count in units.items() if job in self._jobs)[:MOST_JOBS]
        return tuple(replace(self._jobs[job], units=-count) for count, job in shown)


def _used(world: World, parts: Iterable[Part]) -> dict[int, list[_Used]]:
    attempts = {attempt.id: attempt for attempt in world.attempts}
    found: dict[int, list[_Used]] = defaultdict(list)
    for part in parts:
        attempt = attempts[part.borrower]
        found[part.flavor].append(_Used(attempt.team, part.lender, attempt.job, part.units))
    return found


def _jobs(by: Actor, jobs: Iterable[int]) -> dict[int, LoanJob]:
    rows = Job.objects.visible_to(by).filter(id__in=list(jobs)).order_by("id")
    return {
        job: LoanJob(job=uid, name=name, owner=owner, units=0)
        for job, uid, name, owner in rows.values_list("id", "uid", "name", "user__username")
    }
