"""The invariants that can be seen on a virtual clock, checked after every cycle on the raw state (SEMANTICS 13).

Nothing here asks the rules what they think: units are counted anew from the runs, quota by the formulas themselves, and
each waiting job is tried by itself.
"""

from collections import Counter
from collections.abc import Iterator

from queues.admission.outcome import Admission, Outcome
from queues.admission.quota import in_use, ledger
from queues.admission.world import JobShape, Near, NodeState, Placed
from queues.simulation.books import Book
from queues.simulation.engine import Engine
from queues.simulation.idle import Idle, backs_off
from queues.simulation.jobs import Job
from queues.simulation.tally import Tally

EVERY_CYCLE = 100
"""Below so many runs, waiting jobs and nodes all is counted anew after every cycle; n times as many: one in n + 1."""

MOST_REASONS = 300
"""So many waiting jobs have the facts behind their reasons looked at after one cycle."""


Added = tuple[Job, tuple[int, ...], tuple[Placed, ...], bool]
"""A job, the flavors of its groups, tasks of it that a cycle added, and whether they are surplus."""


class Breach(Exception):
    """An invariant does not hold."""

    def __init__(self, at: int, name: str, numbers: str) -> None:
        """Name the cycle, the invariant and what was found."""
        super().__init__(f"{name}: {numbers}")
        self.at = at
        self.name = name
        self.numbers = numbers


class Watch:
    """Looks at each cycle and remembers who was evicted for whom."""

    def __init__(self, engine: Engine) -> None:
        """Begin with nothing seen."""
        self._engine = engine
        self._evicted_for: dict[int, Counter[tuple[int, int]]] = {}
        self._before = Outcome()
        self._idle = Idle(engine)
        self._rest = 0

    def after_cycle(self, *, undisturbed: bool) -> None:
        """Check a cycle; ``undisturbed``: for two cycles nothing but decisions has changed the world."""
        engine = self._engine
        outcome = engine.outcome
        tally = self._counted(outcome)
        self._evictions(outcome)
        if self._nothing_freed(outcome):
            if undisturbed and outcome.admissions:
                names = [engine.by_id[row.job].name for row in outcome.admissions]
                raise Breach(engine.now, "I9", f"{names} could have started a cycle earlier")
            job = None
            if tally is not None:
                tally.take_wishes()
                job = self._idle.find(tally)
            if job is not None:
                raise Breach(engine.now, "I9", f"{job.name} waits although it could start")
        self._before = outcome

    def _counted(self, outcome: Outcome) -> Tally | None:
        """Count everything anew and check it; None: not after this cycle of a large world."""
        if self._rest:
            self._rest -= 1
            return None
        self._rest = self._engine.size() // EVERY_CYCLE
        tally = Tally(self._engine)
        self._nodes(tally)
        self._placed(outcome)
        self._once(outcome)
        self._together(outcome)
        self._quota(tally, outcome)
        self._shapes()
        self._ledger(tally)
        self._reasons(tally)
        return tally

    def _nodes(self, tally: Tally) -> None:
        """I1: no more is held than a node has; what others use counts where something was added."""
        for node in self._engine.nodes.values():
            used = tally.on_nodes.get(node.id, (0, 0, 0))
            for what, have, room in zip(
                ("units", "cpu", "memory"), used, (node.units, node.cpu, node.memory), strict=True
            ):
                if have > room:
                    raise Breach(self._engine.now, "I1", f"node {node.name} has {room} {what}, {have} used")

    def _placed(self, outcome: Outcome) -> None:
        """I1: what was added in this cycle lies on usable nodes that match, within what others leave there."""
        engine = self._engine
        nodes = {node.id: node for node in engine.nodes.values()}
        added: dict[int, list[tuple[Job, int, Placed]]] = {}
        for job, flavors, rows, _ in self._added(outcome):
            for row in rows:
                added.setdefault(row.node, []).append((job, flavors[row.group], row))
        used: Counter[int] = Counter()
        for run in engine.runs.values() if added else ():
            for row in engine.held(run):
                used[row.node] += row.tasks * run.job.spec.groups[row.group].units
        for number, jobs in added.items():
            node = nodes[number]
            if used[number] + node.outside_units > node.units:
                numbers = f"node {node.name} has {node.units} units, {used[number]} used, {node.outside_units} outside"
                raise Breach(engine.now, "I1", numbers)
            for job, flavor, row in jobs:
                matches = set(job.spec.groups[row.group].labels) <= set(node.labels)
                if node.state is not NodeState.READY or node.flavor != flavor or not matches:
                    raise Breach(engine.now, "I1", f"{job.name} was put on node {node.name}, which does not take it")

    def _once(self, outcome: Outcome) -> None:
        """A job holds once, however many of its tasks wait."""
        twice = [job for job, times in Counter(row.job for row in outcome.holds).items() if times > 1]
        if twice:
            raise Breach(self._engine.now, "I5", f"more than one hold of {self._engine.by_id[twice[0]].name}")

    def _together(self, outcome: Outcome) -> None:
        """What is required to be in one domain is: by a group its tasks, by a job all of them, surplus included."""
        engine = self._engine
        paths = {node.id: (*node.domains, node.id) for node in engine.nodes.values()}
        rows = [(engine.by_id[row.job].spec, row.placed) for row in outcome.admissions]
        for growth in outcome.growth:
            run = engine.runs[growth.attempt]
            rows.append((run.job.spec, (*_first_of_each(run.placed), *growth.placed)))
        for spec, placed in rows if paths else ():
            if spec.shape == JobShape.INDEPENDENT:
                continue
            for number, wish in [(None, spec.topology), *((n, group.topology) for n, group in enumerate(spec.groups))]:
                if wish is None or wish.near is not Near.REQUIRED:
                    continue
                domains = {paths[row.node][: wish.level + 1] for row in placed if number in {None, row.group}}
                if len(domains) > 1 or any(domain[-1] is None for domain in domains):
                    raise Breach(
                        engine.now, "I1", f"{spec.name} lies in {sorted(map(str, domains))}, not in one domain"
                    )

    def _added(self, outcome: Outcome) -> Iterator[Added]:
        """Yield what this cycle added: admissions, then surplus."""
        engine = self._engine
        for admission in outcome.admissions:
            yield engine.by_id[admission.job], admission.flavors, admission.placed, False
        for growth in outcome.growth:
            run = engine.runs[growth.attempt]
            yield run.job, run.flavors, growth.placed, True

    def _quota(self, tally: Tally, outcome: Outcome) -> None:
        """I2: what a cycle adds takes nobody over a limit; victims of claims count no longer here.

        Claims made in this cycle may count on what leaves and are left out, those that stood before are in.
        """
        added = list(self._added(outcome))
        if not added:
            return
        engine = self._engine
        stood = {row.id for row in self._before.claims}
        fresh = [row for row in outcome.claims if row.id not in stood and engine.by_id[row.job].row is not None]
        for claim in fresh:
            tally.use(engine.by_id[claim.job], claim.flavors, claim.placed, -1)
        after = {flavor: self._numbers(book, added) for flavor, book in tally.books.items()}
        for job, flavors, rows, soft in added:
            tally.use(job, flavors, rows, -1, soft=soft)
        for flavor, book in tally.books.items():
            before = self._numbers(book, added)
            for node, units in after[flavor][0].items():
                limit = book.limit(node)
                if limit is not None and limit < units > before[0][node]:
                    name = "all teams" if node is None else engine.teams[node].name
                    raise Breach(engine.now, "I2", f"{name}: {units} used, limit {limit}")
            for team, units in after[flavor][1].items():
                if units > before[1][team]:
                    raise Breach(engine.now, "I2", f"{engine.teams[team].name}: {units} firm units are not covered")
        for job, flavors, rows, soft in added:
            tally.use(job, flavors, rows, 1, soft=soft)
        for claim in fresh:
            tally.use(engine.by_id[claim.job], claim.flavors, claim.placed, 1)
        for job, *_ in added:
            if engine.paused(job.spec):
                raise Breach(engine.now, "I2", f"{job.name} may not start: it is paused")
            for used, most in tally.limits(job):
                if most is not None and used > most:
                    raise Breach(engine.now, "I2", f"{job.spec.user}: {used} used, limit {most}")

    def _numbers(self, book: Book, added: list[Added]) -> tuple[dict[int | None, int], dict[int, int]]:
        """Return the usage of all nodes above those who were added to, and what is not covered of their firm units."""
        teams = {job.spec.team for job, *_ in added}
        nodes = {None, *(node for team in teams for node in book.path(team))}
        return {node: book.usage(node) for node in nodes}, {team: book.uncovered(team) for team in teams}

    def _shapes(self) -> None:
        """I3: a gang holds all its tasks or none; an elastic job its minimum, and no more than its maximum."""
        engine = self._engine
        for run in engine.runs.values():
            job = run.job
            if run.leaving or run.part is None:
                continue
            has = Counter(dict.fromkeys(range(len(job.spec.groups)), 0))
            for row in run.placed:
                has[row.group] += row.tasks
            soft: Counter[int] = Counter()
            for row in run.surplus:
                soft[row.group] += row.tasks
            for number, group in enumerate(job.spec.groups):
                wanted = 1 if job.independent else group.tasks
                most = wanted if group.most is None or job.spec.shape != JobShape.ELASTIC else group.most
                if has[number] != wanted or wanted + soft[number] > most:
                    numbers = f"{job.name} holds {has[number]} + {soft[number]} tasks, wants {wanted} to {most}"
                    raise Breach(engine.now, "I3", numbers)

    def _ledger(self, tally: Tally) -> None:
        """I5: what is booked is what the runs hold. I6: every borrowed unit is lent by somebody or over lending."""
        engine = self._engine
        world = engine.world()
        counted = in_use(world)
        tree, lines = counted
        loans = {loan.flavor: loan for loan in ledger(world, counted).loans}
        for flavor, book in tally.held.items():
            for team in engine.teams:
                booked = lines[flavor].usage[tree.number[team]]
                if book.leaf(team) and booked != book.used[team]:
                    numbers = f"{engine.teams[team].name}: {booked} booked, {book.used[team]} held by runs"
                    raise Breach(engine.now, "I5", numbers)
            borrowed, loan = book.borrowed(), loans[flavor]
            lent, total = sum(units for _, units in loan.lent), sum(borrowed.values())
            short = max(0, total - book.lendable())
            if dict(loan.borrowed) != borrowed or lent + loan.over_lending != total or loan.over_lending != short:
                numbers = f"{total} borrowed, {lent} lent, {loan.over_lending} over lending, {short} not covered"
                raise Breach(engine.now, "I6", numbers)

    def _reasons(self, tally: Tally) -> None:
        """I7: one current reason for each waiting job, and none that the facts deny."""
        engine = self._engine
        rows = Counter(
            (row.job_class if row.job is None else None, row.user, row.job) for row in engine.outcome.verdicts
        )
        twice = next((row for row, times in rows.items() if times > 1), None)
        if twice is not None:
            raise Breach(engine.now, "I7", f"two reasons for (class, user, job) {twice}")
        claiming = {claim.job for claim in engine.outcome.claims}
        holding = {hold.job for hold in engine.outcome.holds}
        free = Counter({node.flavor: 0 for node in engine.nodes.values()})
        for node in engine.nodes.values():
            if node.state is NodeState.READY:
                free[node.flavor] += max(0, tally.free[node.id][0])
        looked = 0
        for job in engine.waiting():
            if job.row is None or job.id in engine.fresh:
                continue
            reason = engine.reason(job)
            if reason is None:
                raise Breach(engine.now, "I7", f"{job.name} waits without a reason")
            looked += 1
            if looked <= MOST_REASONS and not self._true(job, reason, claiming, holding, free):
                raise Breach(engine.now, "I7", f"{job.name} waits, but not for {reason}")

    def _true(self, job: Job, reason: str, claiming: set[int], holding: set[int], free: Counter[int]) -> bool:
        """Whether the facts allow the reason, for those that can be seen without the rules."""
        engine = self._engine
        if reason == "QUEUE_PAUSED":
            return engine.paused(job.spec)
        if reason == "BACKING_OFF":
            return backs_off(engine, job)
        if reason == "WAITS_VICTIMS":
            return job.id in claiming
        if reason == "HOLDS":
            return job.id in holding
        if reason == "NO_FREE_CAPACITY":
            groups = job.spec.groups
            asks = [group.units * (1 if job.independent else group.tasks) for group in groups]
            flavors = {flavor for group in groups for flavor in group.flavors or engine.flavors_of(job.spec.team)}
            return any(free[flavor] < sum(asks) for flavor in flavors)
        return True

    def _nothing_freed(self, outcome: Outcome) -> bool:
        """Whether all that is free now was free for all who had a turn in this cycle: nobody gave anything up."""
        before = self._before
        started = {row.job for row in outcome.admissions}
        claims = {row.id for row in outcome.claims}
        gone = [row for row in before.claims if row.id not in claims and row.job not in started]
        held, holds = ({(row.job, row.placed, row.at) for row in rows.holds} for rows in (before, outcome))
        return not outcome.evictions and not gone and not held - holds

    def _evictions(self, outcome: Outcome) -> None:
        """I10: nobody is evicted twice for the same task of a claimant that has neither started nor lost its claim.

        It loses it to whose claim takes it over, or by what people do; not by what happens, such as a lost node,
        unless it has kept idle what it may.
        """
        engine = self._engine
        for admission in outcome.admissions:
            self._evicted_for.pop(admission.job, None)
        standing = {row.job for row in outcome.claims}
        taken = {row.job for row in outcome.takeovers}
        for job in self._evicted_for.keys() - standing:
            if engine.acted or job in taken or engine.may_idle(engine.by_id[job]) <= 0:
                del self._evicted_for[job]
        engine.acted = False
        for eviction in outcome.evictions:
            claimant = engine.by_id[eviction.job]
            if eviction.surplus or self._started(claimant, outcome):
                continue
            seen = self._evicted_for.setdefault(eviction.job, Counter())
            victim = engine.victim(eviction.attempt)
            seen[victim] += 1
            if seen[victim] > (len(claimant.waiting) if claimant.independent else 1):
                raise Breach(engine.now, "I10", f"{engine.by_id[victim[0]].name} evicted twice for {claimant.name}")

    @staticmethod
    def _started(job: Job, outcome: Outcome) -> bool:
        rows: tuple[Admission, ...] = outcome.admissions
        return any(row.job == job.id for row in rows)


def _first_of_each(placed: tuple[Placed, ...]) -> list[Placed]:
    """Return one row of each group: where the others have to be."""
    return list({row.group: row for row in reversed(placed)}.values())
