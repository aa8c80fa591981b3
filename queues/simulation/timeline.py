"""The lines of a timeline taking effect."""

from dataclasses import replace

from queues.admission.world import (
    Milliseconds,
    Node,
    NodeState,
    Quota,
)
from queues.simulation.floor import Floor
from queues.simulation.jobs import Job, Part, State
from queues.simulation.scenario import Line

CHANCE = frozenset({"submit", "end", "checkpoint"})
"""Lines that take no right from those who wait; all others are acts of people, or of the machines' owners."""


class Timeline(Floor):
    """Applies lines to the world."""

    def apply(self, line: Line) -> None:
        """Let one line of the timeline take effect."""
        getattr(self, f"_do_{line.verb}")(line)
        self.touch()
        self.acted = self.acted or not (line.verb in CHANCE or (line.verb == "node" and _only_away(line)))

    def _do_submit(self, line: Line) -> None:
        spec = line.job
        if spec is None:
            return
        user = self._users.setdefault(spec.user, len(self._users) + 1)
        parts = [Part() for _ in range(spec.groups[0].tasks if spec.shape == "independent" else 1)]
        number = len(self.jobs) + 1
        job = Job(number, spec, user, self.now, self.now, parts, queued_since=self.now)
        self.jobs[spec.name] = job
        self.by_id[number] = job
        self._elastic = self._elastic or spec.shape == "elastic"
        self.note(job, "submitted")
        self._enter(job)

    def _do_cancel(self, line: Line) -> None:
        job = self._job(line)
        if job.ended is not None:
            raise line.place.wrong(f"job {job.name!r} has ended")
        self._leave(job)
        job.waiting.clear()
        self.note(job, "cancelled")
        for run in list(job.runs.values()):
            if not run.leaving:
                self._let_go(run, State.CANCELLED)
            run.then = State.CANCELLED
        self._end_if_done(job, State.CANCELLED)

    def _do_set_quota(self, line: Line) -> None:
        for team_id, flavor, changes in line.quotas:
            team = self.teams[team_id]
            rows = {quota.flavor: quota for quota in team.quotas}
            rows[flavor] = replace(rows.get(flavor, Quota(flavor=flavor)), **changes)
            self.teams[team_id] = replace(team, quotas=tuple(rows[key] for key in sorted(rows)))
        self.check_guarantees(line)
        self._defaults.clear()
        self._reclassify()

    def _do_node(self, line: Line) -> None:
        node = self.nodes.get(line.name) or self.removed[line.name]
        if "outside" in line.changes:
            node = replace(node, outside_units=int(str(line.changes["outside"])))
        if "labels" in line.changes:
            labels = line.changes["labels"]
            merged = dict(node.labels) | dict(labels if isinstance(labels, tuple) else ())
            domains = tuple(merged.get(level) for level in self.scenario.levels)
            node = replace(node, labels=tuple(sorted(merged.items())), domains=domains)
        state = line.changes.get("state")
        if line.name in self.removed and state in {None, "removed"}:
            self.removed[line.name] = node
            return
        self.removed.pop(line.name, None)
        self.nodes[line.name] = node
        if state == "removed":
            self.removed[line.name] = self.nodes.pop(line.name)
            self.lost.pop(node.id, None)
            self.check_guarantees(line)
            self._requeue_from(node.id)
        elif state is not None:
            self._set_state(node, NodeState(str(state)))
        self._defaults.clear()
        self._reclassify()

    def _do_team(self, line: Line) -> None:
        team = next(team for team in self.teams.values() if team.name == line.name)
        self.teams[team.id] = replace(team, **line.changes)
        if "per_user_limit" in line.changes:
            self.own_user_limit.add(team.id)
        for job in self.jobs.values():
            self._note_wait(job)

    def _do_hold(self, line: Line) -> None:
        job = self._job(line)
        if job.state is not State.QUEUED:
            raise line.place.wrong(f"job {job.name!r} is {job.state.value}, not queued")
        self._leave(job)
        job.held = True
        self._enter(job)

    def _do_release(self, line: Line) -> None:
        job = self._job(line)
        if job.held:
            job.held = False
            self._enter(job)

    def _do_end(self, line: Line) -> None:
        job = self._job(line)
        live = sorted((run for run in job.runs.values() if not run.leaving), key=lambda run: (run.since, run.id))
        if not live:
            raise line.place.wrong(f"job {job.name!r} does not run")
        if line.number is not None:
            if not job.independent:
                raise line.place.wrong("tasks is for independent jobs")
            if line.number > len(live):
                raise line.place.wrong(f"job {job.name!r} has only {len(live)} tasks that run")
            live = live[: line.number]
        elif job.independent:
            self._leave(job)
            job.waiting.clear()
            for run in job.runs.values():
                run.then = State(line.text) if run.leaving else run.then
        for run in live:
            self._finish(run, State(line.text))

    def _do_checkpoint(self, line: Line) -> None:
        job = self._job(line)
        live = [run for run in job.runs.values() if not run.leaving]
        if not live:
            raise line.place.wrong(f"job {job.name!r} does not run")
        for run in live:
            if run.part is not None:
                run.part.saved += self.now - run.saved_at
                run.saved_at = self.now
                run.row = None

    def _do_policy(self, line: Line) -> None:
        self.policy = replace(self.policy, **line.changes)
        self.check_guarantees(line)
        self._queue_rows.clear()
        for job in self.jobs.values():
            if job.row is not None:
                self._set_timers(job)
        self._reclassify()

    def _set_state(self, node: Node, state: NodeState) -> None:
        self.nodes[node.name] = replace(node, state=state)
        self.lost.pop(node.id, None)
        if state is NodeState.LOST:
            until = self.lost[node.id] = self.now + self.policy.node_lost_after
            for run in self._on(node.id):
                run.row = None
            self.due(until, lambda: self._still_lost(node.id, until))
        for run in self._on(node.id):
            run.row = None

    def _still_lost(self, node: int, until: Milliseconds) -> None:
        if self.lost.get(node) == until:
            self._requeue_from(node)

    def _job(self, line: Line) -> Job:
        job = self.jobs.get(line.name)
        if job is None:
            raise line.place.wrong(f"job {line.name!r} is not submitted yet")
        return job


def _only_away(line: Line) -> bool:
    """Whether a node is only lost or cordoned, or back: whose claims wait for it."""
    return line.changes.keys() == {"state"} and line.changes["state"] != "removed"
