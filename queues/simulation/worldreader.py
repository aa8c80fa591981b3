"""Reads the standing part of a scenario file: policy, flavors, nodes, teams, queues, priorities."""

from collections.abc import Callable
from typing import Any

from queues.admission.world import Quota
from queues.simulation.reading import Field
from queues.simulation.spec import (
    TICK,
    FlavorSpec,
    JobSpec,
    NodeSpec,
    QueueSpec,
    TeamSpec,
)

POLICY_FIELDS = (
    "tick", "hold_after", "aging", "min_runtime", "evictions_per_minute", "preempt_within_team", "restart_cost",
    "order", "grace", "per_user_limit", "max_evictions", "default_time_limit", "limit_needed_to_borrow",
    "hold_idle_limit", "elastic_pause", "node_lost_after", "overcommit",
)  # fmt: skip
QUEUE_FIELDS = (
    "name", "team", "hold_after", "order", "per_user_limit", "default_time_limit", "max_time_limit",
    "preempt_within_team", "min_runtime", "grace", "paused", "limit_needed_to_borrow",
)  # fmt: skip
NODE_FIELDS = ("name", "count", "flavor", "units", "cpu", "memory", "outside", "labels")
GROUP_FIELDS = (
    "tasks", "units", "cpu", "memory", "flavors", "labels", "required", "preferred", "spread", "max_skew", "min", "max",
)  # fmt: skip
JOB_FIELDS = (
    "name", "count", "team", "user", "queue", "priority", "shape", "time_limit", "runs", "borrow", "preemptible",
    "grace", "groups", *GROUP_FIELDS,
)  # fmt: skip


MOST = 1_000_000
"""So many nodes, jobs, or tasks of one job are made from one line at most."""


class WorldReader:
    """Turns the fields that describe the world into values, in the order in which names are defined."""

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
        self._named_jobs: list[Field] = []

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
            name = named(item, fields)
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
        allowed = (*NODE_FIELDS, *self._levels)
        for item in self._top["nodes"].items():
            fields = item.fields(allowed)
            if "flavor" not in fields or "units" not in fields:
                raise item.wrong("needs flavor and units")
            flavor = fields["flavor"].text()
            if flavor not in self._flavors:
                self._flavors[flavor] = FlavorSpec(id=len(self._flavors) + 1, name=flavor)
            spec = self._flavors[flavor]
            labels = dict(labels_of(fields["labels"])) if "labels" in fields else {}
            labels |= {level: fields[level].text() for level in self._levels if level in fields}
            for name in numbered(item, fields):
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
                    domains=tuple(labels.get(level) for level in self._levels),
                    labels=tuple(sorted(labels.items())),
                )

    def _read_teams(self) -> None:
        items = self._top["teams"].items()
        allowed = ("name", "parent", "guaranteed", "borrow_limit", "lend_limit", "weight", "per_user_limit", "paused")
        rows = [(item, item.fields(allowed)) for item in items]
        numbers: dict[str, int] = {}
        for item, fields in rows:
            name = named(item, fields)
            if name in numbers:
                raise item.wrong(f"team {name!r} is defined twice")
            numbers[name] = len(numbers) + 1
        for item, fields in rows:
            name = named(item, fields)
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
                own_user_limit="per_user_limit" in fields,
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
        defined: set[tuple[int, str]] = set()
        for item in self._top["queues"].items() if "queues" in self._top else ():
            fields = item.fields(QUEUE_FIELDS)
            name = named(item, fields)
            if "team" not in fields:
                raise item.wrong("needs a team")
            team = self._team(fields["team"])
            if team.id in self._parents:
                raise fields["team"].wrong("a department has no queues")
            if (team.id, name) in defined:
                raise item.wrong(f"queue {name!r} is defined twice")
            defined.add((team.id, name))
            known = self._queues.get((team.id, name))
            number = known.id if known else len(self._queues) + 1
            self._queues[team.id, name] = _queue(number, name, team.id, fields)


def named(item: Field, fields: dict[str, Field]) -> str:
    """Return the name that an item must have."""
    if "name" not in fields:
        raise item.wrong("needs a name")
    return fields["name"].text()


def numbered(item: Field, fields: dict[str, Field]) -> list[str]:
    """Return the names of an item with a count, numbered from 1, or its own name."""
    name = named(item, fields)
    if "count" not in fields:
        return [name]
    return [f"{name}{number}" for number in range(1, fields["count"].integer(least=1, most=MOST) + 1)]


def labels_of(where: Field) -> tuple[tuple[str, str], ...]:
    """Return node labels, sorted."""
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
