"""What a scenario expects: read from the file, compared with what the simulation found."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from queues.admission.reasons import Code
from queues.simulation.reading import Field

AFTER_RELEASE = (
    "UNSCHEDULABLE", "IMAGE_PULL", "K8S_QUOTA", "K8S_REJECTED", "NAME_CONFLICT", "NODE_LOST", "DELETED_OUTSIDE",
    "START_FAILED", "TIMED_OUT", "CLUSTER_UNREACHABLE",
)  # fmt: skip
"""Codes that a decision never gives; one of them may stand in a list of acceptable ones."""
FIELDS = (
    "at", "job", "state", "units", "on", "reason", "reserved", "team", "flavor", "used", "borrowed", "available",
    "node", "count", "equals", "min", "max", "evictions", "of", "starts", "within", "always",
)  # fmt: skip
STATES = ("queued", "held", "admitted", "running", "evicting", "succeeded", "failed", "cancelled")
COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
ALWAYS = re.compile(
    r"(?P<what>team|node|flavor)\s+(?P<name>\S+?)\.(?P<value>used|borrowed|available)(?:\[(?P<flavor>[^\]]+)\])?"
    r"\s*(?P<sign><=|>=|==|<|>)\s*(?P<number>-?\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names that a file defines."""

    jobs: frozenset[str]
    users: frozenset[str]
    queues: frozenset[str]
    priorities: frozenset[str]
    teams: dict[str, int]
    flavors: dict[str, int]
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """A bound that must hold after every cycle."""

    text: str
    what: str
    name: str
    value: str
    flavor: str | None
    sign: str
    number: int

    def holds(self, found: int) -> bool:
        """Whether a found number keeps the bound."""
        return COMPARE[self.sign](found, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One item of ``expect``: about a job, team, node, number of jobs, evictions, a start, or what holds always."""

    written: dict[str, object]
    at: int | None = None
    kind: str = ""
    name: str = ""
    flavor: str | None = None
    values: dict[str, object]
    starts: int = 0
    within: int = 0
    always: Always | None = None

    @property
    def latest(self) -> int:
        """Return the last time that the item names."""
        return self.at if self.at is not None else self.starts + self.within


def read(item: Field, names: Names) -> Expectation:
    """Read one item; a wrong one raises with its place."""
    fields = item.fields(FIELDS)
    written = {name: plain(value) for name, value in fields.items()}
    if "always" in fields:
        _only(item, fields, ("always",))
        return Expectation(written=written, kind="always", values={}, always=_always(fields["always"], names))
    if "starts" in fields:
        _only(item, fields, ("job", "starts", "within"))
        name = _job(item, fields, names)
        within = fields["within"].duration() if "within" in fields else 0
        starts = fields["starts"].duration()
        return Expectation(written=written, kind="starts", name=name, values={}, starts=starts, within=within)
    if "at" not in fields:
        raise item.wrong("needs at, starts or always")
    at = fields["at"].duration()
    for kind, reader in (("job", _of_job), ("count", _of_count), ("evictions", _of_evictions)):
        if kind in fields:
            name, values = reader(item, fields, names)
            return Expectation(written=written, at=at, kind=kind, name=name, values=values)
    for kind, known in (("team", names.teams), ("node", names.nodes)):
        if kind in fields:
            name = fields[kind].text()
            if name not in known:
                raise fields[kind].wrong(f"no {kind} is called {name!r}")
            _only(item, fields, ("at", kind, "flavor", "used", "borrowed", "available"))
            values = {key: fields[key].integer() for key in ("used", "borrowed", "available") if key in fields}
            return Expectation(
                written=written, at=at, kind=kind, name=name, flavor=_flavor(fields, names), values=values
            )
    if "flavor" in fields:
        _only(item, fields, ("at", "flavor", "used"))
        values = {"used": fields["used"].integer()} if "used" in fields else {}
        name = _flavor(fields, names) or ""
        return Expectation(written=written, at=at, kind="flavor", name=name, values=values)
    raise item.wrong("needs one of job, team, node, flavor, count, evictions")


def plain(value: Field) -> object:
    """Return the value as it was written, for the report."""
    if value.null:
        return None
    if value.is_mapping:
        return {name: plain(part) for name, part in value.fields().items()}
    if value.is_list:
        return [plain(part) for part in value.items()]
    return value.integer() if value.is_integer else value.text()


def _only(item: Field, fields: Mapping[str, Field], allowed: tuple[str, ...]) -> None:
    for name, value in fields.items():
        if name not in allowed:
            raise value.wrong(f"does not go with {', '.join(allowed)}")
    if not fields:
        raise item.wrong("is empty")


def _job(item: Field, fields: Mapping[str, Field], names: Names) -> str:
    if "job" not in fields:
        raise item.wrong("needs a job")
    name = fields["job"].text()
    if name not in names.jobs:
        raise fields["job"].wrong(f"no job is called {name!r}")
    return name


def _flavor(fields: Mapping[str, Field], names: Names) -> str | None:
    if "flavor" not in fields:
        return None
    name = fields["flavor"].text()
    if name not in names.flavors:
        raise fields["flavor"].wrong(f"no flavor is called {name!r}")
    return name


def _of_job(item: Field, fields: Mapping[str, Field], names: Names) -> tuple[str, dict[str, object]]:
    _only(item, fields, ("at", "job", "state", "units", "on", "reason", "reserved"))
    values: dict[str, object] = {}
    if "state" in fields:
        values["state"] = fields["state"].choice(STATES)
    for key in ("units", "reserved"):
        if key in fields:
            values[key] = fields[key].integer(least=0)
    if "on" in fields:
        nodes = [part.text() for part in fields["on"].items()] if fields["on"].is_list else [fields["on"].text()]
        for node in nodes:
            if node not in names.nodes:
                raise fields["on"].wrong(f"no node is called {node!r}")
        values["on"] = sorted(nodes)
    if "reason" in fields:
        reason = fields["reason"]
        rows = reason.items() if reason.is_list else [reason]
        values["reason"] = [row.choice([*Code, *AFTER_RELEASE]) for row in rows]
    return _job(item, fields, names), values


def _of_count(item: Field, fields: Mapping[str, Field], names: Names) -> tuple[str, dict[str, object]]:
    _only(item, fields, ("at", "count", "equals", "min", "max", "units"))
    wanted = fields["count"].fields(("team", "user", "queue", "state", "priority", "flavor", "name"))
    for key, known in (("team", names.teams), ("queue", names.queues), ("flavor", names.flavors)):
        if key in wanted and wanted[key].text() not in known:
            raise wanted[key].wrong(f"no {key} is called {wanted[key].text()!r}")
    if "priority" in wanted and not wanted["priority"].is_integer and wanted["priority"].text() not in names.priorities:
        raise wanted["priority"].wrong(f"no priority is called {wanted['priority'].text()!r}")
    if "user" in wanted and wanted["user"].text() not in names.users:
        raise wanted["user"].wrong(f"no job is of a user called {wanted['user'].text()!r}")
    if "name" in wanted and not wanted["name"].text().endswith("*") and wanted["name"].text() not in names.jobs:
        raise wanted["name"].wrong(f"no job is called {wanted['name'].text()!r}")
    if "state" in wanted:
        wanted["state"].choice(STATES)
    values: dict[str, object] = {"of": {name: value.text() for name, value in wanted.items()}}
    for key in ("equals", "min", "max", "units"):
        if key in fields:
            values[key] = fields[key].integer(least=0)
    if len(values) == 1:
        raise fields["count"].wrong("needs a number beside it: equals, min, max or units")
    return "", values


def _of_evictions(item: Field, fields: Mapping[str, Field], names: Names) -> tuple[str, dict[str, object]]:
    _only(item, fields, ("at", "evictions", "of"))
    values: dict[str, object] = {"evictions": fields["evictions"].integer(least=0)}
    if "of" in fields:
        of = [part.text() for part in fields["of"].items()]
        for name in of:
            if name not in names.jobs:
                raise fields["of"].wrong(f"no job is called {name!r}")
        values["of"] = sorted(of)
    return "", values


def _always(where: Field, names: Names) -> Always:
    match = ALWAYS.fullmatch(where.text().strip())
    if match is None:
        raise where.wrong("must read like: team a.used <= 24")
    what, name, value, flavor = match["what"], match["name"], match["value"], match["flavor"]
    known = {"team": names.teams, "node": names.nodes, "flavor": names.flavors}[what]
    if name not in known:
        raise where.wrong(f"no {what} is called {name!r}")
    if flavor is not None and flavor not in names.flavors:
        raise where.wrong(f"no flavor is called {flavor!r}")
    if what != "team" and value != "used":
        raise where.wrong(f"a {what} has .used only")
    return Always(
        text=where.text(),
        what=what,
        name=name,
        value=value,
        flavor=flavor,
        sign=match["sign"],
        number=int(match["number"]),
    )
