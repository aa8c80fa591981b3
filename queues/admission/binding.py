"""What planned starts and keeps leave to others (SEMANTICS 7): who is bound by which, and what is free for whom."""

from bisect import bisect_left

from queues.admission.frame import Frame
from queues.admission.margins import Margins
from queues.admission.nodes import Ground, Room, survey
from queues.admission.placement import fits
from queues.admission.plans import Asker, Case, Plan
from queues.admission.quota import ROOT
from queues.admission.rooms import least, minus, negative, rooms
from queues.admission.settled import Settled
from queues.admission.shapes import Needs, Option
from queues.admission.usage import Usage
from queues.admission.world import Milliseconds, Placed, Standing, World


class Binding(Usage):
    """Quota and nodes at this point of the decision, and the planned starts and keeps that stand in others' way."""

    def __init__(
        self, world: World, frame: Frame | None, *, settled: Settled | None, count_lost: bool, leaving: bool
    ) -> None:
        """Take what is ``settled``, or survey the nodes; nothing is planned or kept yet."""
        super().__init__(world, frame, settled=settled, count_lost=count_lost)
        if settled is None:
            self.ground: Ground = survey(world, count_lost=count_lost, leaving=leaving)
        else:
            self.ground = settled.ground.copy()
        self.plans: list[Plan] = []
        self.kept: dict[int, Room] = {}
        self.keeping: dict[int, list[tuple[Case, Needs]]] = {}
        self.touched: dict[int, Room] | None = None
        self._seen: list[Plan] = []
        self._planned: dict[int, Plan] = {}
        self._plans_on: dict[int, list[Plan]] = {}
        self._least_urgent: dict[int, int] = {}
        self._planned_of: dict[tuple[int, int], set[int]] = {}
        self._times: list[Milliseconds] = []
        self._within: set[int | None] = set()
        self._margins: Margins | None = None
        self._binding: dict[tuple[object, int | None, tuple[int, ...] | None], frozenset[int]] = {}
        self._views: dict[tuple[bool, frozenset[int]], Ground] = {}

    def could(self, case: Case, option: Option) -> bool:
        """Whether the job could start now if no keep or hold stood in its way."""
        return self.quota(case, option) and fits(self.ground, option)

    def admissible(self, asker: Asker, option: Option) -> bool:
        """Whether the job could start now: quota, cover and a witness, no keep or hold that binds it being touched."""
        if not self.quota(asker.case, option):
            return False
        if not self.plans and not self.kept:
            return fits(self.ground, option)
        return self._spares_quota(asker, option) and fits(self.view(asker, option), option)

    def _spares_quota(self, asker: Asker, option: Option) -> bool:
        """Whether the planned starts that bind the job would still find their quota with the ask in use."""
        self._look_at_plans()
        if self._margins is None:
            self._margins = Margins()
            for plan in self.plans:
                self._margins.add(plan)
        tight = self._margins.tight((*self.tree.path[asker.case.place], ROOT), option.needs)
        if not tight:
            return True
        inside = self.inside_at(asker.case, option)
        return all(
            plan.job == asker.job or not self._binds(plan, asker, inside) or self.leaves_quota(asker, option, [plan])
            for plan in tight
        )

    def binding(self, asker: Asker, option: Option) -> list[Plan]:
        """Return the planned starts that the job may not delay (SEMANTICS 7)."""
        jobs = self._binding_jobs(asker, option)
        return [plan for plan in self.plans if plan.job in jobs] if jobs else []

    def _binding_jobs(self, asker: Asker, option: Option) -> frozenset[int]:
        """Return whose planned starts bind the job; found once for all to whom the same can be said."""
        if not self.plans:
            return frozenset()
        self._look_at_plans()
        inside, place = self.inside_at(asker.case, option), asker.case.place
        outranks = asker.priority > self._least_urgent.get(place, asker.priority)
        key = (
            (place, asker.priority) if outranks else None,
            None if asker.ends is None else bisect_left(self._times, asker.ends),
            None if inside is None else tuple([node for node in self.tree.path[inside][1:] if node in self._within]),
        )
        known = self._binding.get(key)
        if known is None:
            found = frozenset(plan.job for plan in self.plans if self._binds(plan, asker, inside))
            known = self._binding[key] = found
        return known - {asker.job} if asker.job in known else known

    def planned_of(self, job_class: int, user: int) -> set[int]:
        """Return the jobs of a user and a class that have a planned start, or hold without a time."""
        self._look_at_plans()
        return self._planned_of.get((job_class, user), set())

    def last_start(self) -> Milliseconds | None:
        """Return the last of all planned starts."""
        self._look_at_plans()
        return self._times[-1] if self._times else None

    def _look_at_plans(self) -> None:
        """Find plans by job and node; plans only come at the end of their list, and where one goes it is a new one."""
        if self._seen is not self.plans or len(self._planned) != len(self.plans):
            self._seen = self.plans
            self._planned = {plan.job: plan for plan in self.plans}
            self._plans_on = {}
            self._least_urgent = {}
            self._planned_of = {}
            for plan in self.plans:
                self._planned_of.setdefault((plan.job_class, plan.user), set()).add(plan.job)
                for node in plan.needs:
                    self._plans_on.setdefault(node, []).append(plan)
                place = plan.case.place
                self._least_urgent[place] = min(plan.priority, self._least_urgent.get(place, plan.priority))
            self._times = sorted({plan.at for plan in self.plans if plan.at is not None})
            self._within = {plan.node for plan in self.plans}
            self._binding.clear()
            self._margins = None

    def _change_plan(self, plan: Plan, place: int, units: dict[int, int], sign: int) -> None:
        """Count units in or out of the quota that a planned start will find."""
        plan.change(place, units, sign)
        self._margins = None

    def _binds(self, plan: Plan, asker: Asker, inside: int | None) -> bool:
        if plan.at is not None and asker.ends is not None and asker.ends <= plan.at:
            return False
        if plan.case.place == asker.case.place and asker.priority > plan.priority:
            return False
        if inside is None:
            return True
        if plan.standing is Standing.BORROWER:
            return False
        below = plan.node is not None and plan.node != inside and plan.node in self.tree.path[inside]
        return not below

    def leaves_quota(self, asker: Asker, option: Option, binding: list[Plan]) -> bool:
        """Whether planned starts would still find their quota, and their guarantee, with the ask in use."""
        place, job, needs = asker.case.place, asker.job, option.needs
        return all(
            job in plan.counted or plan.leaves(place, flavor, units) for plan in binding for flavor, units in needs
        )

    def view(self, asker: Asker, option: Option, *, everything: bool = False) -> Ground:
        """Return what is free for this asker, less what is kept or held against it (``everything``: anybody)."""
        self._look_at_plans()
        binding = frozenset(self._planned) if everything else self._binding_jobs(asker, option)
        keeps = bool(self.kept) and (everything or self.minds_keeps(asker, option))
        if not binding and not keeps:
            return self.ground
        own = None if everything or asker.job not in self._planned else asker.job
        return self._view((keeps, binding), own)

    def _view(self, key: tuple[bool, frozenset[int]], own: int | None = None) -> Ground:
        """Return what is free beside keeps, or not, and some jobs' planned starts.

        ``own``: of these that of one more is left out, so that only its nodes differ from what all of them leave.
        """
        known = self._views.get(key)
        if known is None and own is not None:
            known = self._views[key] = self._view((key[0], key[1] | {own})).copy()
            for node in sorted(self._planned[own].needs):
                self._look(known, key, node)
        if known is None:
            known = self._views[key] = self.ground.copy()
            touched = {node for job in key[1] for node in self._planned[job].needs}
            touched.update(self.kept if key[0] else ())
            for node in sorted(touched):
                self._look(known, key, node)
        return known

    def minds_keeps(self, asker: Asker, option: Option) -> bool:
        """Whether keeps bind a job: it would borrow, those of others counted as usage unless it holds as guaranteed."""
        if not self.inside(asker.case, option):
            return True
        others = [row for job, rows in self.keeping.items() if job != asker.job for row in rows]
        plan = self._planned.get(asker.job) if others and asker.job is not None else None
        if plan is not None and plan.standing is Standing.GUARANTEED:
            others = [(case, needs) for case, needs in others if self._inside_below(plan.node, case, needs)]
        if not others:
            return False
        for case, needs in others:
            self.count_promise(case, needs, 1)
        inside = self.inside(asker.case, option)
        for case, needs in others:
            self.count_promise(case, needs, -1)
        return not inside

    def _inside_below(self, node: int | None, case: Case, needs: Needs) -> bool:
        """Whether a job is inside its guarantee at a node below another, on each of its flavors."""
        inside = [self.hard[flavor].within(case.place, units) for flavor, units in needs]
        return all(at is not None and at != node and node in self.tree.path[at] for at in inside)

    def _look(self, view: Ground, key: tuple[bool, frozenset[int]], node: int) -> None:
        kind = self.ground.where.get(node)
        if kind is None:
            return
        room: Room = (kind.units, kind.cpu, kind.memory, kind.pods)
        if key[0] and node in self.kept:
            room = minus(room, self.kept[node])
        self._look_at_plans()
        for plan in self._plans_on.get(node, ()):
            if plan.job in key[1]:
                spare = plan.room_beside(node, key[1])
                room = least(room, spare) if spare is not None else minus(room, plan.needs[node])
        view.set(node, room)

    def shift(self, node: int, room: Room) -> None:
        """Add free room to a node (negative: take it), in what everybody sees."""
        if self.touched is not None and node not in self.touched and (kind := self.ground.where.get(node)) is not None:
            self.touched[node] = (kind.units, kind.cpu, kind.memory, kind.pods)
        self.ground.shift(node, room)
        if node in self.ground.where:
            for key, view in self._views.items():
                self._look(view, key, node)

    def forget_views(self) -> None:
        """Look again at what is kept and held against whom."""
        self.turn += 1
        self._views.clear()

    def drop_plan(self, job: int | None) -> None:
        """Forget the planned start of a job that starts or claims."""
        if job is not None and any(plan.job == job for plan in self.plans):
            self.plans = [plan for plan in self.plans if plan.job != job]
            for plan in self.plans:
                plan.forget(job)
            self.forget_views()

    def gives(self, asker: Asker, option: Option) -> bool:
        """Whether a start may leave others more: its own planned start goes, or another's loses what it counted on."""
        place, needs = asker.case.place, option.needs
        return any(
            plan.job == asker.job
            or (plan.outlasted_by(asker.ends) and not all(plan.leaves(place, flavor, units) for flavor, units in needs))
            for plan in self.plans
        )

    def _tell_plans(
        self,
        case: Case,
        option: Option,
        placed: tuple[Placed, ...],
        ends: Milliseconds | None,
        job: int | None,
        sign: int = 1,
    ) -> None:
        """Let planned starts count what will still be in use at their time."""
        for plan in self.plans:
            if plan.outlasted_by(ends):
                self.squeezed += 1
                before = plan.grip()
                if job not in plan.counted:
                    self._change_plan(plan, case.place, dict(option.needs), sign)
                if sign < 0 or plan.grip() != before:
                    self.turn += 1
                for node, room in rooms(option, placed).items():
                    plan.free(node, negative(room) if sign > 0 else room)
