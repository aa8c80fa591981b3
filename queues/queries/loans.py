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
from queues.queries.rows import LoanJob, LoanSide, TeamLoans
from tenants.errors import NotFound
from tenants.permissions import Actor, Permission, visible_teams

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
    return dict(visible_teams(by, Permission.VIEW_QUOTA).values_list("id", "name"))


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
        here = [part for part in parts if part.flavor == flavor]
        for place in range(1, len(tree.parent)):
            if here and tree.ids[place] in names:
                found = _Side(tree, place, here, used.get(flavor, ()), names, jobs)
                if found.borrowed or found.lent:
                    yield found.row(line.flavor.name)


class _Side:
    """The loans of one team on one flavor."""

    def __init__(
        self,
        tree: Tree,
        place: int,
        parts: Iterable[Part],
        used: Iterable[_Used],
        names: Mapping[int, str],
        jobs: Mapping[int, LoanJob],
    ) -> None:
        self._names, self._jobs = names, jobs
        self.team = names[tree.ids[place]]
        self.department = bool(tree.children[place])
        # A department's own pool lends too; what its teams lend each other stays inside.
        own = {tree.ids[below] for below in range(1, len(tree.parent)) if place in tree.path[below]}
        self.borrowed = [part for part in parts if part.borrower in own and part.lender not in own]
        self.lent = [part for part in parts if part.lender in own and part.borrower not in own]
        self.used_here = [row for row in used if row.borrower in own and row.lender not in own]
        self.used_there = [row for row in used if row.lender in own and row.borrower not in own]

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
