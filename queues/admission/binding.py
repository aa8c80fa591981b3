"""What planned starts and keeps leave to others (SEMANTICS 7): who is bound by which, and what is free for whom."""

from queues.admission.frame import Frame
from queues.admission.nodes import Ground, Room, survey
from queues.admission.placement import fits
from queues.admission.plans import Asker, Case, Plan
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
        self._binding: dict[tuple[int, int, Milliseconds | None, int | None], list[Plan]] = {}
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
        binding = self.binding(asker, option)
        return self.leaves_quota(asker, option, binding) and fits(self.view(asker, option), option)

    def binding(self, asker: Asker, option: Option) -> list[Plan]:
        """Return the planned starts that the job may not delay (SEMANTICS 7)."""
        if not self.plans:
            return []
        self._look_at_plans()
        key = (asker.case.place, asker.priority, asker.ends, self.inside_at(asker.case, option))
        known = self._binding.get(key)
        if known is None:
            known = self._binding[key] = [plan for plan in self.plans if self._binds(plan, asker, key[3])]
        return known if asker.job not in self._planned else [plan for plan in known if plan.job != asker.job]

    def _look_at_plans(self) -> None:
        """Find plans by job and node; plans only come at the end of their list, and where one goes it is a new one."""
        if self._seen is not self.plans or len(self._planned) != len(self.plans):
            self._seen = self.plans
            self._planned = {plan.job: plan for plan in self.plans}
            self._plans_on = {}
            for plan in self.plans:
                for node in plan.needs:
                    self._plans_on.setdefault(node, []).append(plan)
            self._binding.clear()

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
        binding = self.plans if everything else self.binding(asker, option)
        keeps = bool(self.kept) and (everything or self.minds_keeps(asker, option))
        if not binding and not keeps:
            return self.ground
        key = (keeps, frozenset(plan.job for plan in binding))
        known = self._views.get(key)
        if known is None:
            known = self._views[key] = self.ground.copy()
            touched = {node for plan in binding for node in plan.needs} | (set(self.kept) if keeps else set())
            for node in sorted(touched):
                self._look(known, key, node)
        return known

    def minds_keeps(self, asker: Asker, option: Option) -> bool:
        """Whether keeps bind a job: it would borrow, those of others counted as usage unless it holds as guaranteed."""
        if not self.inside(asker.case, option):
            return True
        others = [row for job, rows in self.keeping.items() if job != asker.job for row in rows]
        plan = self._planned.get(asker.job) if others and asker.job is not None else None
        if not others or (plan is not None and plan.standing is Standing.GUARANTEED):
            return False
        for case, needs in others:
            self.count_promise(case, needs, 1)
        inside = self.inside(asker.case, option)
        for case, needs in others:
            self.count_promise(case, needs, -1)
        return not inside

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
                    plan.change(case.place, dict(option.needs), sign)
                if sign < 0 or plan.grip() != before:
                    self.turn += 1
                for node, room in rooms(option, placed).items():
                    plan.free(node, negative(room) if sign > 0 else room)
