"""A scenario file as frozen values: a world, a timeline, what must be true."""

from dataclasses import replace
from pathlib import Path

from queues.simulation import expectations as expected
from queues.simulation.reading import ScenarioError, read
from queues.simulation.spec import (
    TICK,
    FlavorSpec,
    GroupSpec,
    JobSpec,
    Line,
    NodeSpec,
    PolicySpec,
    QueueSpec,
    Scenario,
    TeamSpec,
)
from queues.simulation.timelinereader import TimelineReader
from queues.simulation.worldreader import NODE_FIELDS

__all__ = [
    "TICK",
    "FlavorSpec",
    "GroupSpec",
    "JobSpec",
    "Line",
    "NodeSpec",
    "PolicySpec",
    "QueueSpec",
    "Reader",
    "Scenario",
    "ScenarioError",
    "TeamSpec",
    "load",
]


def load(path: Path) -> Scenario:
    """Read a scenario; what is not valid raises with file, line and field."""
    return Reader(read(path), str(path)).scenario()


class Reader(TimelineReader):
    """Turns the fields of one file into a scenario."""

    def scenario(self) -> Scenario:
        """Read everything, in the order in which names are defined."""
        top = self._top
        if "nodes" not in top or "teams" not in top:
            raise self._root.wrong("needs nodes and teams")
        policy = replace(PolicySpec(), **self._policy(top["policy"])) if "policy" in top else PolicySpec()
        if "levels" in top:
            self._levels = tuple(item.text() for item in top["levels"].items())
            taken = {"node", *NODE_FIELDS}
            if len(set(self._levels)) < len(self._levels) or taken.intersection(self._levels):
                raise top["levels"].wrong("levels must differ, node is implied, and a field of nodes is no level")
        if "priorities" in top:
            self._read_priorities(top["priorities"])
        self._read_flavors()
        self._read_nodes()
        self._read_teams()
        self._read_queues()
        timeline = self._timeline()
        names = expected.Names(
            jobs=frozenset(self._jobs),
            users=frozenset(job.user for job in self._jobs.values()),
            queues=frozenset(name for _, name in self._queues),
            priorities=frozenset(self._priorities),
            teams={name: row.id for name, row in self._teams.items()},
            flavors={name: row.id for name, row in self._flavors.items()},
            nodes=frozenset(self._nodes),
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
