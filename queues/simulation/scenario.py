"""A scenario file as frozen values: a world, a timeline, what must be true."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from queues.admission.world import Near, Quota, Topology
from queues.simulation import expectations as expected
from queues.simulation.reading import Field, ScenarioError, read

TICK = 10_000
POLICY_FIELDS = (
    "tick", "hold_after", "aging", "min_runtime", "evictions_per_minute", "preempt_within_team", "restart_cost",
    "order", "grace", "per_user_limit", "max_evictions", "default_time_limit", "limit_needed_to_borrow",
    "hold_idle_limit", "elastic_pause", "node_lost_after", "overcommit",
)  # fmt: skip
QUEUE_FIELDS = (
    "name", "team", "hold_after", "order", "per_user_limit", "default_time_limit", "max_time_limit",
    "preempt_within_team", "min_runtime", "grace", "paused", "limit_needed_to_borrow",
)  # fmt: skip
GROUP_FIELDS = (
    "tasks", "units", "cpu", "memory", "flavors", "labels", "required", "preferred", "spread", "max_skew", "min", "max",
)  # fmt: skip
JOB_FIELDS = (
    "name", "count", "team", "user", "queue", "priority", "shape", "time_limit", "runs", "borrow", "preemptible",
    "grace", "groups", *GROUP_FIELDS,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """What holds for all queues that do not say otherwise; times in milliseconds."""

    tick: int = TICK
    on_events: bool = False
    hold_after: int = 1_800_000
    aging_every: int = 3_600_000
    aging_step: int = 1
    aging_cap: int = 2
    min_runtime: int = 0
    evictions_per_minute: int | None = None
    preempt_within_team: bool = False
    restart_cost: int = 600_000
    fifo: bool = False
    grace: int = 0
    per_user_limit: int | None = None
    max_evictions: int = 3
    default_time_limit: int | None = None
    limit_needed_to_borrow: bool = False
    hold_idle_limit: int | None = None
    elastic_pause: int = 600_000
    node_lost_after: int = 300_000
    overcommit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorSpec:
    """A kind of capacity; each installed unit offers ``slots`` counted ones."""

    id: int
    name: str
    value: int = 1000
    slots: int = 1
    spread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node at the start, units in counted ones."""

    id: int
    name: str
    flavor: int
    units: int
    cpu: int
    memory: int
    outside: int
    domains: tuple[str | None, ...]
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSpec:
    """A team at the start."""

    id: int
    name: str
    parent: int | None
    weight: int
    quotas: tuple[Quota, ...]
    per_user_limit: int | None
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """A queue; None means that the policy decides, but for ``max_time_limit`` and ``max_grace``: no limit."""

    id: int
    name: str
    team: int
    hold_after: int | None = None
    fifo: bool | None = None
    per_user_limit: int | None = None
    own_user_limit: bool = False
    default_time_limit: int | None = None
    own_default_limit: bool = False
    max_time_limit: int | None = None
    preempt_within_team: bool | None = None
    min_runtime: int | None = None
    max_grace: int | None = None
    paused: bool = False
    limit_needed_to_borrow: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """Equal tasks of a job, ``most`` of an elastic one; flavors None: all that the team could ever get."""

    tasks: int
    units: int
    cpu: int
    memory: int
    flavors: tuple[int, ...] | None
    labels: tuple[tuple[str, str], ...]
    topology: Topology | None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as it is submitted."""

    name: str
    team: int
    user: str
    queue: int
    priority: int
    priority_name: str
    shape: str
    groups: tuple[GroupSpec, ...]
    topology: Topology | None
    time_limit: int | None
    own_time_limit: bool
    runs: int | None
    borrow: bool
    preemptible: bool
    grace: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the timeline: what happens when; ``place`` is where errors point to."""

    at: int
    verb: str
    place: Field
    job: JobSpec | None = None
    name: str = ""
    number: int | None = None
    text: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    quotas: tuple[tuple[int, int, dict[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a file says."""

    file: str
    name: str
    policy: PolicySpec
    flavors: tuple[FlavorSpec, ...]
    levels: tuple[str, ...]
    nodes: tuple[NodeSpec, ...]
    teams: tuple[TeamSpec, ...]
    queues: tuple[QueueSpec, ...]
    timeline: tuple[Line, ...]
    expects: tuple[expected.Expectation, ...]
    until: int
    place: Field


def load(path: Path) -> Scenario:
    """Read a scenario; what is not valid raises with file, line and field."""
    return Reader(read(path), str(path)).scenario()


class Reader:
    """Turns the fields of one file into a scenario."""

    def __init__(self, root: Field, file: str) -> None:
        """Look at the top level."""
        self._file = file
        self._root = root
        allowed = (
            "name",
            "policy",
            "flavors",
            "levels",
            "nodes",
            "teams",
            "queues",
            "priorities",
            "timeline",
            "expect",
        )
        self._top = root.fields((*allowed, "until"))
        self._flavors: dict[str, FlavorSpec] = {}
        self._teams: dict[str, TeamSpec] = {}
        self._queues: dict[tuple[int, str], QueueSpec] = {}
        self._nodes: dict[str, NodeSpec] = {}
        self._jobs: dict[str, JobSpec] = {}
        self._priorities = {"low": (-1, True), "normal": (0, True), "high": (1, True)}
        self._levels: tuple[str, ...] = ()
        self._parents: set[int] = set()
        self._named_times: list[tuple[int, Field]] = []

    def scenario(self) -> Scenario:
        """Read everything, in the order in which names are defined."""
        top = self._top
        if "nodes" not in top or "teams" not in top:
            raise self._root.wrong("needs nodes and teams")
        policy = replace(PolicySpec(), **self._policy(top["policy"])) if "policy" in top else PolicySpec()
        if "levels" in top:
            self._levels = tuple(item.text() for item in top["levels"].items())
            if len(set(self._levels)) < len(self._levels) or "node" in self._levels:
                raise top["levels"].wrong("levels must differ, and node is implied")
        if "priorities" in top:
            self._read_priorities(top["priorities"])
        self._read_flavors()
        self._read_nodes()
        self._read_teams()
        self._read_queues()
        timeline = self._timeline()
        names = expected.Names(
            jobs=frozenset(self._jobs),
            teams={name: row.id for name, row in self._teams.items()},
            flavors={name: row.id for name, row in self._flavors.items()},
            nodes=frozenset(self._nodes) | {str(line.changes["new"]) for line in timeline if "new" in line.changes},
        )
        expects = tuple(expected.read(item, names) for item in top["expect"].items()) if "expect" in top else ()
        last = max([0, *(line.at for line in timeline), *(row.latest for row in expects)])
        until = last + policy.tick
        if "until" in top:
            until = top["until"].duration()
            for at, place in self._named_times:
                if at > until:
                    raise place.wrong("is beyond until")
            for item, row in zip(top["expect"].items() if "expect" in top else (), expects, strict=True):
                if row.at is not None and row.at > until:
                    raise item.wrong("at is beyond until")
        return Scenario(
            file=self._file,
            name=top["name"].text() if "name" in top else Path(self._file).stem,
            policy=policy,
            flavors=tuple(self._flavors.values()),
            levels=self._levels,
            nodes=tuple(self._nodes.values()),
            teams=tuple(self._teams.values()),
            queues=tuple(self._queues.values()),
            timeline=timeline,
            expects=expects,
            until=until,
            place=self._top["teams"],
        )

    def _policy(self, where: Field) -> dict[str, Any]:
        """Return the changes of a policy mapping."""
        result: dict[str, Any] = {}
        times = {"hold_after", "min_runtime", "restart_cost", "grace", "elastic_pause", "node_lost_after"}
        for name, value in where.fields(POLICY_FIELDS).items():
            if name == "tick":
                result["on_events"] = not value.is_integer and value.text() == "event"
                result["tick"] = TICK if result["on_events"] else value.duration()
                if not result["tick"]:
                    raise value.wrong("must be longer than 0s")
            elif name == "aging":
                result |= self._aging(value)
            elif name in times:
                result[name] = value.duration()
            elif name == "default_time_limit":
                result[name] = value.duration_or_null()
            elif name == "order":
                result["fifo"] = value.choice(("fair_users", "fifo")) == "fifo"
            elif name == "preempt_within_team":
                result[name] = value.choice(("never", "lower_priority")) == "lower_priority"
            elif name in {"limit_needed_to_borrow", "overcommit"}:
                result[name] = value.flag()
            elif name == "max_evictions":
                result[name] = value.integer(least=0)
            else:
                result[name] = value.limit(least=1 if name == "evictions_per_minute" else 0)
        return result

    def _aging(self, where: Field) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, value in where.fields(("every", "step", "cap")).items():
            result[f"aging_{name}"] = value.duration() if name == "every" else value.integer(least=0)
        if result.get("aging_every") == 0:
            raise where.wrong("every must be longer than 0s")
        return result

    def _read_priorities(self, where: Field) -> None:
        for name, value in where.fields().items():
            if value.is_mapping:
                fields = value.fields(("value", "preemptible"))
                if "value" not in fields:
                    raise value.wrong("needs a value")
                preemptible = fields["preemptible"].flag() if "preemptible" in fields else True
                self._priorities[name] = (fields["value"].integer(), preemptible)
            else:
                self._priorities[name] = (value.integer(), True)

    def _flavor(self, where: Field) -> int:
        name = where.text()
        if name not in self._flavors:
            raise where.wrong(f"no flavor is called {name!r}")
        return self._flavors[name].id

    def _read_flavors(self) -> None:
        for item in self._top["flavors"].items() if "flavors" in self._top else ():
            fields = item.fields(("name", "value", "slots", "placement"))
            name = _named(item, fields)
            if name in self._flavors:
                raise item.wrong(f"flavor {name!r} is defined twice")
            value = fields["value"].thousandths() if "value" in fields else 1000
            if not value:
                raise fields["value"].wrong("must be above 0")
            self._flavors[name] = FlavorSpec(
                id=len(self._flavors) + 1,
                name=name,
                value=value,
                slots=fields["slots"].integer(least=1) if "slots" in fields else 1,
                spread="placement" in fields and fields["placement"].choice(("pack", "spread")) == "spread",
            )

    def _read_nodes(self) -> None:
        allowed = ("name", "count", "flavor", "units", "cpu", "memory", "outside", "labels", *self._levels)
        for item in self._top["nodes"].items():
            fields = item.fields(allowed)
            if "flavor" not in fields or "units" not in fields:
                raise item.wrong("needs flavor and units")
            flavor = fields["flavor"].text()
            if flavor not in self._flavors:
                self._flavors[flavor] = FlavorSpec(id=len(self._flavors) + 1, name=flavor)
            spec = self._flavors[flavor]
            for name in _numbered(item, fields):
                if name in self._nodes:
                    raise item.wrong(f"node {name!r} is defined twice")
                self._nodes[name] = NodeSpec(
                    id=len(self._nodes) + 1,
                    name=name,
                    flavor=spec.id,
                    units=fields["units"].integer(least=0) * spec.slots,
                    cpu=fields["cpu"].thousandths() if "cpu" in fields else 1 << 50,
                    memory=fields["memory"].size() if "memory" in fields else 1 << 80,
                    outside=fields["outside"].integer(least=0) if "outside" in fields else 0,
                    domains=tuple(fields[level].text() if level in fields else None for level in self._levels),
                    labels=_labels(fields["labels"]) if "labels" in fields else (),
                )

    def _read_teams(self) -> None:
        items = self._top["teams"].items()
        allowed = ("name", "parent", "guaranteed", "borrow_limit", "lend_limit", "weight", "per_user_limit", "paused")
        rows = [(item, item.fields(allowed)) for item in items]
        numbers: dict[str, int] = {}
        for item, fields in rows:
            name = _named(item, fields)
            if name in numbers:
                raise item.wrong(f"team {name!r} is defined twice")
            numbers[name] = len(numbers) + 1
        for item, fields in rows:
            name = _named(item, fields)
            parent = None
            if "parent" in fields and not fields["parent"].null:
                parent = numbers.get(fields["parent"].text())
                if parent is None:
                    raise fields["parent"].wrong(f"no team is called {fields['parent'].text()!r}")
                self._parents.add(parent)
            self._teams[name] = TeamSpec(
                id=numbers[name],
                name=name,
                parent=parent,
                weight=fields["weight"].thousandths() if "weight" in fields else 1000,
                quotas=self._quotas(fields),
                per_user_limit=fields["per_user_limit"].limit() if "per_user_limit" in fields else None,
                paused=fields["paused"].flag() if "paused" in fields else False,
            )
        self._refuse_cycles()

    def _refuse_cycles(self) -> None:
        parents = {row.id: row.parent for row in self._teams.values()}
        for start, above in parents.items():
            seen, team = {start}, above
            while team is not None:
                if team in seen:
                    raise self._top["teams"].wrong("a department must not be its own parent")
                seen.add(team)
                team = parents[team]

    def _quotas(self, fields: dict[str, Field]) -> tuple[Quota, ...]:
        rows: dict[int, dict[str, int | None]] = {}
        for name in ("guaranteed", "borrow_limit", "lend_limit"):
            for flavor, value in fields[name].fields().items() if name in fields else ():
                if flavor not in self._flavors:
                    raise value.wrong(f"no flavor is called {flavor!r}")
                number = value.integer(least=0) if name == "guaranteed" else value.limit()
                rows.setdefault(self._flavors[flavor].id, {})[name] = number
        return tuple(
            Quota(
                flavor=flavor,
                guaranteed=row.get("guaranteed") or 0,
                borrow_limit=row.get("borrow_limit"),
                lend_limit=row.get("lend_limit"),
            )
            for flavor, row in sorted(rows.items())
        )

    def _team(self, where: Field) -> TeamSpec:
        name = where.text()
        if name not in self._teams:
            raise where.wrong(f"no team is called {name!r}")
        return self._teams[name]

    def _read_queues(self) -> None:
        for team in self._teams.values():
            if team.id not in self._parents:
                self._queues[team.id, "default"] = QueueSpec(id=len(self._queues) + 1, name="default", team=team.id)
        for item in self._top["queues"].items() if "queues" in self._top else ():
            fields = item.fields(QUEUE_FIELDS)
            name = _named(item, fields)
            if "team" not in fields:
                raise item.wrong("needs a team")
            team = self._team(fields["team"])
            if team.id in self._parents:
                raise fields["team"].wrong("a department has no queues")
            if (team.id, name) in self._queues and name != "default":
                raise item.wrong(f"queue {name!r} is defined twice")
            known = self._queues.get((team.id, name))
            number = known.id if known else len(self._queues) + 1
            self._queues[team.id, name] = _queue(number, name, team.id, fields)

    def _timeline(self) -> tuple[Line, ...]:
        lines: list[Line] = []
        for item in self._top["timeline"].items() if "timeline" in self._top else ():
            verbs: dict[str, Callable[[int, Field], list[Line]]] = {
                "submit": self._submit,
                "cancel": self._of_job,
                "hold": self._of_job,
                "release": self._of_job,
                "checkpoint": self._of_job,
                "end": self._end,
                "set_quota": self._set_quota,
                "node": self._node,
                "team": self._team_change,
                "policy": self._policy_change,
                "repeat": self._repeat,
            }
            fields = item.fields(("at", *verbs))
            when = fields.pop("at", None)
            if when is None or len(fields) != 1:
                raise item.wrong("needs at and exactly one of " + ", ".join(verbs))
            at = when.duration()
            self._named_times.append((at, when))
            ((verb, value),) = fields.items()
            lines += [replace(line, verb=verb if verb != "repeat" else "submit") for line in verbs[verb](at, value)]
        return tuple(sorted(lines, key=lambda line: line.at))

    def _submit(self, at: int, value: Field) -> list[Line]:
        fields = value.fields(JOB_FIELDS)
        return [self._new_job(at, value, fields, name) for name in _numbered(value, fields)]

    def _new_job(self, at: int, value: Field, fields: dict[str, Field], name: str) -> Line:
        if name in self._jobs:
            raise value.wrong(f"job {name!r} is defined twice")
        job = self._jobs[name] = self._job(value, fields, name)
        return Line(at, "submit", value, job=job, name=name)

    def _repeat(self, at: int, value: Field) -> list[Line]:
        outer = value.fields(("every", "times", "submit"))
        if not {"every", "times", "submit"} <= outer.keys():
            raise value.wrong("needs every, times and submit")
        every, times = outer["every"].duration(), outer["times"].integer(least=0)
        fields = outer["submit"].fields(JOB_FIELDS)
        name = _named(outer["submit"], fields)
        count = fields["count"].integer(least=1) if "count" in fields else 1
        return [
            self._new_job(at + (number // count) * every, outer["submit"], fields, f"{name}{number + 1}")
            for number in range(times * count)
        ]

    def _job(self, value: Field, fields: dict[str, Field], name: str) -> JobSpec:
        if "team" not in fields:
            raise value.wrong("needs a team")
        team = self._team(fields["team"])
        if team.id in self._parents:
            raise fields["team"].wrong("a department has no jobs")
        queue_name = fields["queue"].text() if "queue" in fields else "default"
        if (team.id, queue_name) not in self._queues:
            raise fields["queue"].wrong(f"team {team.name!r} has no queue {queue_name!r}")
        priority, preemptible, priority_name = self._priority(fields)
        shape = fields["shape"].choice(("independent", "gang", "elastic")) if "shape" in fields else ""
        own_limit = "time_limit" in fields
        return JobSpec(
            name=name,
            team=team.id,
            user=fields["user"].text() if "user" in fields else team.name,
            queue=self._queues[team.id, queue_name].id,
            priority=priority,
            priority_name=priority_name,
            shape=shape or ("gang" if "groups" in fields else "independent"),
            groups=self._groups(value, fields, shape),
            topology=self._topology(fields) if "groups" in fields else None,
            time_limit=fields["time_limit"].duration_or_null() if own_limit else None,
            own_time_limit=own_limit,
            runs=fields["runs"].duration_or_null() if "runs" in fields else None,
            borrow=fields["borrow"].flag() if "borrow" in fields else True,
            preemptible=fields["preemptible"].flag() if "preemptible" in fields else preemptible,
            grace=fields["grace"].duration_or_null() if "grace" in fields else None,
        )

    def _priority(self, fields: dict[str, Field]) -> tuple[int, bool, str]:
        if "priority" not in fields:
            return (*self._priorities["normal"], "normal")
        field_ = fields["priority"]
        if field_.is_integer:
            number = field_.integer()
            return number, True, str(number)
        name = field_.text()
        if name not in self._priorities:
            raise field_.wrong(f"no priority is called {name!r}")
        return (*self._priorities[name], name)

    def _groups(self, value: Field, fields: dict[str, Field], shape: str) -> tuple[GroupSpec, ...]:
        if "groups" not in fields:
            return (self._group(value, fields, shape),)
        if shape == "independent":
            raise value.wrong("an independent job has no groups")
        for name in ("tasks", "units", "cpu", "memory", "min", "max", "flavors", "labels"):
            if name in fields and name not in {"flavors", "labels"}:
                raise fields[name].wrong("stands in the groups of this job")
        rows = []
        for item in fields["groups"].items():
            own = item.fields(GROUP_FIELDS)
            inherited = {name: fields[name] for name in ("flavors", "labels") if name in fields and name not in own}
            rows.append(self._group(item, inherited | own, shape))
        if not rows:
            raise fields["groups"].wrong("needs at least one group")
        return tuple(rows)

    def _group(self, value: Field, fields: dict[str, Field], shape: str) -> GroupSpec:
        tasks, most = (fields["tasks"].integer(least=1) if "tasks" in fields else 1), None
        if shape == "elastic" and ("groups" not in fields):
            if "min" in fields or "max" in fields:
                tasks = fields["min"].integer(least=1) if "min" in fields else 1
                most = fields["max"].integer(least=tasks) if "max" in fields else tasks
        elif "min" in fields or "max" in fields:
            raise value.wrong("min and max are for elastic jobs")
        flavors = None
        if "flavors" in fields:
            flavors = tuple(self._flavor(item) for item in fields["flavors"].items())
            if not flavors:
                raise fields["flavors"].wrong("must name at least one flavor")
        return GroupSpec(
            tasks=tasks,
            units=fields["units"].integer(least=1) if "units" in fields else 1,
            cpu=fields["cpu"].thousandths() if "cpu" in fields else 0,
            memory=fields["memory"].size() if "memory" in fields else 0,
            flavors=flavors,
            labels=_labels(fields["labels"]) if "labels" in fields else (),
            topology=self._topology(fields),
            most=most,
        )

    def _topology(self, fields: dict[str, Field]) -> Topology | None:
        found = [name for name in ("required", "preferred", "spread") if name in fields]
        if not found:
            return None
        if len(found) > 1:
            raise fields[found[1]].wrong("only one of required, preferred and spread")
        level = fields[found[0]].choice((*self._levels, "node"))
        skew = fields["max_skew"].integer(least=1) if "max_skew" in fields else None
        return Topology(near=Near(found[0]), level=(*self._levels, "node").index(level), max_skew=skew)

    def _known_job(self, where: Field) -> str:
        name = where.text()
        if name not in self._jobs:
            raise where.wrong(f"no job is called {name!r}")
        return name

    def _of_job(self, at: int, value: Field) -> list[Line]:
        return [Line(at, "", value, name=self._known_job(value))]

    def _end(self, at: int, value: Field) -> list[Line]:
        fields = value.fields(("job", "state", "tasks"))
        if "job" not in fields:
            raise value.wrong("needs a job")
        state = fields["state"].choice(("succeeded", "failed")) if "state" in fields else "succeeded"
        tasks = fields["tasks"].integer(least=1) if "tasks" in fields else None
        return [Line(at, "", value, name=self._known_job(fields["job"]), number=tasks, text=state)]

    def _set_quota(self, at: int, value: Field) -> list[Line]:
        rows = []
        for item in value.items() if value.is_list else [value]:
            fields = item.fields(("team", "flavor", "guaranteed", "borrow_limit", "lend_limit"))
            if "team" not in fields or "flavor" not in fields:
                raise item.wrong("needs team and flavor")
            changes: dict[str, Any] = {}
            if "guaranteed" in fields:
                changes["guaranteed"] = fields["guaranteed"].integer(least=0)
            for name in ("borrow_limit", "lend_limit"):
                if name in fields:
                    changes[name] = fields[name].limit()
            rows.append((self._team(fields["team"]).id, self._flavor(fields["flavor"]), changes))
        return [Line(at, "", value, quotas=tuple(rows))]

    def _node(self, at: int, value: Field) -> list[Line]:
        fields = value.fields(("name", "state", "outside", "labels"))
        name = _named(value, fields)
        if name not in self._nodes:
            raise fields["name"].wrong(f"no node is called {name!r}")
        changes: dict[str, Any] = {}
        if "state" in fields:
            changes["state"] = fields["state"].choice(("ready", "cordoned", "lost", "removed"))
        if "outside" in fields:
            changes["outside"] = fields["outside"].integer(least=0)
        if "labels" in fields:
            changes["labels"] = _labels(fields["labels"])
        return [Line(at, "", value, name=name, changes=changes)]

    def _team_change(self, at: int, value: Field) -> list[Line]:
        fields = value.fields(("name", "paused", "weight", "per_user_limit"))
        team = self._team(fields["name"]) if "name" in fields else None
        if team is None:
            raise value.wrong("needs a name")
        changes: dict[str, Any] = {}
        if "paused" in fields:
            changes["paused"] = fields["paused"].flag()
        if "weight" in fields:
            changes["weight"] = fields["weight"].thousandths()
        if "per_user_limit" in fields:
            changes["per_user_limit"] = fields["per_user_limit"].limit()
        return [Line(at, "", value, name=team.name, changes=changes)]

    def _policy_change(self, at: int, value: Field) -> list[Line]:
        return [Line(at, "", value, changes=self._policy(value))]


def _named(item: Field, fields: dict[str, Field]) -> str:
    if "name" not in fields:
        raise item.wrong("needs a name")
    return fields["name"].text()


def _numbered(item: Field, fields: dict[str, Field]) -> list[str]:
    name = _named(item, fields)
    if "count" not in fields:
        return [name]
    return [f"{name}{number}" for number in range(1, fields["count"].integer(least=1) + 1)]


def _labels(where: Field) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value.text()) for name, value in where.fields().items()))


def _queue(number: int, name: str, team: int, fields: dict[str, Field]) -> QueueSpec:
    def optional(key: str, take: Callable[[Field], object]) -> object:
        return take(fields[key]) if key in fields else None

    fifo = fields["order"].choice(("fair_users", "fifo")) == "fifo" if "order" in fields else None
    within = None
    if "preempt_within_team" in fields:
        within = fields["preempt_within_team"].choice(("never", "lower_priority")) == "lower_priority"
    return QueueSpec(
        id=number,
        name=name,
        team=team,
        hold_after=fields["hold_after"].duration() if "hold_after" in fields else None,
        fifo=fifo,
        per_user_limit=fields["per_user_limit"].limit() if "per_user_limit" in fields else None,
        own_user_limit="per_user_limit" in fields,
        default_time_limit=fields["default_time_limit"].duration_or_null() if "default_time_limit" in fields else None,
        own_default_limit="default_time_limit" in fields,
        max_time_limit=fields["max_time_limit"].duration_or_null() if "max_time_limit" in fields else None,
        preempt_within_team=within,
        min_runtime=fields["min_runtime"].duration() if "min_runtime" in fields else None,
        max_grace=fields["grace"].duration() if "grace" in fields else None,
        paused=fields["paused"].flag() if "paused" in fields else False,
        limit_needed_to_borrow=fields["limit_needed_to_borrow"].flag() if "limit_needed_to_borrow" in fields else None,
    )


__all__ = ["Line", "Scenario", "ScenarioError", "load"]
