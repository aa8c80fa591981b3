"""Reads the timeline of a scenario file: jobs and all that happens to them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from queues.admission.world import Near, Topology
from queues.simulation.reading import Field
from queues.simulation.spec import (
    GroupSpec,
    JobSpec,
    Line,
)
from queues.simulation.worldreader import GROUP_FIELDS, JOB_FIELDS, MOST, WorldReader, labels_of, named, numbered

Verb = Callable[[int, Field], list[Line]]
"""Reads what happens at a time."""


class TimelineReader(WorldReader):
    """Turns the lines of the timeline into values; repeats become one line a job."""

    def _timeline(self) -> tuple[Line, ...]:
        lines: list[Line] = []
        for item in self._top["timeline"].items() if "timeline" in self._top else ():
            verbs: dict[str, Verb] = {
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
        for where in self._named_jobs:
            if where.text() not in self._jobs:
                raise where.wrong(f"no job is called {where.text()!r}")
        return tuple(sorted(lines, key=lambda line: line.at))

    def _submit(self, at: int, value: Field) -> list[Line]:
        fields = value.fields(JOB_FIELDS)
        return [self._new_job(at, value, fields, name) for name in numbered(value, fields)]

    def _new_job(self, at: int, value: Field, fields: dict[str, Field], name: str) -> Line:
        if name in self._jobs:
            raise value.wrong(f"job {name!r} is defined twice")
        job = self._jobs[name] = self._job(value, fields, name)
        return Line(at, "submit", value, job=job, name=name)

    def _repeat(self, at: int, value: Field) -> list[Line]:
        outer = value.fields(("every", "times", "submit"))
        if not {"every", "times", "submit"} <= outer.keys():
            raise value.wrong("needs every, times and submit")
        every, times = outer["every"].duration(), outer["times"].integer(least=0, most=MOST)
        fields = outer["submit"].fields(JOB_FIELDS)
        name = named(outer["submit"], fields)
        count = fields["count"].integer(least=1, most=MOST // max(1, times)) if "count" in fields else 1
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
            if shape == "elastic" and "min" not in fields:
                raise value.wrong("an elastic job needs min, the tasks that start together")
            return (self._group(value, fields, shape),)
        if shape == "independent":
            raise value.wrong("an independent job has no groups")
        for name in ("tasks", "units", "cpu", "memory", "min", "max"):
            if name in fields:
                raise fields[name].wrong("stands in the groups of this job")
        rows = []
        for item in fields["groups"].items():
            own = item.fields(GROUP_FIELDS)
            inherited = {name: fields[name] for name in ("flavors", "labels") if name in fields and name not in own}
            rows.append(self._group(item, inherited | own, shape))
        if not rows:
            raise fields["groups"].wrong("needs at least one group")
        if shape == "elastic" and all(row.most is None for row in rows):
            raise fields["groups"].wrong("an elastic job needs a group with min and max")
        return tuple(rows)

    def _group(self, value: Field, fields: dict[str, Field], shape: str) -> GroupSpec:
        tasks, most = self._tasks(value, fields, shape)
        return GroupSpec(
            tasks=tasks,
            units=fields["units"].integer(least=1) if "units" in fields else 1,
            cpu=fields["cpu"].thousandths() if "cpu" in fields else 0,
            memory=fields["memory"].size() if "memory" in fields else 0,
            flavors=self._flavors_of(fields["flavors"]) if "flavors" in fields else None,
            labels=labels_of(fields["labels"]) if "labels" in fields else (),
            topology=self._topology(fields),
            most=most,
        )

    def _tasks(self, value: Field, fields: dict[str, Field], shape: str) -> tuple[int, int | None]:
        """Return how many tasks start, and of what is elastic how many there may be."""
        if not fields.keys() & {"min", "max"}:
            return (fields["tasks"].integer(least=1, most=MOST) if "tasks" in fields else 1), None
        if shape != "elastic":
            raise value.wrong("min and max are for elastic jobs")
        if "min" not in fields:
            raise value.wrong("what is elastic needs min, the tasks that start together")
        if "tasks" in fields:
            raise fields["tasks"].wrong("what is elastic has min and max in place of tasks")
        tasks = fields["min"].integer(least=1, most=MOST)
        return tasks, fields["max"].integer(least=tasks, most=MOST) if "max" in fields else tasks

    def _flavors_of(self, where: Field) -> tuple[int, ...]:
        """Return the flavors of a list, each named once."""
        flavors: list[int] = []
        for item in where.items():
            flavors.append(self._flavor(item))
            if flavors.count(flavors[-1]) > 1:
                raise item.wrong(f"flavor {item.text()!r} is listed twice; name each once")
        if not flavors:
            raise where.wrong("must name at least one flavor")
        return tuple(flavors)

    def _topology(self, fields: dict[str, Field]) -> Topology | None:
        found = [name for name in ("required", "preferred", "spread") if name in fields]
        if "max_skew" in fields and "spread" not in fields:
            raise fields["max_skew"].wrong("goes with spread only; say the level to spread over, or leave it out")
        if not found:
            return None
        if len(found) > 1:
            raise fields[found[1]].wrong("only one of required, preferred and spread")
        level = fields[found[0]].choice((*self._levels, "node"))
        skew = fields["max_skew"].integer(least=1) if "max_skew" in fields else None
        return Topology(near=Near(found[0]), level=(*self._levels, "node").index(level), max_skew=skew)

    def _job_called(self, where: Field) -> str:
        """Return the name of a job that a line may define anywhere in the file."""
        self._named_jobs.append(where)
        return where.text()

    def _of_job(self, at: int, value: Field) -> list[Line]:
        return [Line(at, "", value, name=self._job_called(value))]

    def _end(self, at: int, value: Field) -> list[Line]:
        fields = value.fields(("job", "state", "tasks"))
        if "job" not in fields:
            raise value.wrong("needs a job")
        state = fields["state"].choice(("succeeded", "failed")) if "state" in fields else "succeeded"
        tasks = fields["tasks"].integer(least=1) if "tasks" in fields else None
        return [Line(at, "", value, name=self._job_called(fields["job"]), number=tasks, text=state)]

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
        name = named(value, fields)
        if name not in self._nodes:
            raise fields["name"].wrong(f"no node is called {name!r}")
        changes: dict[str, Any] = {}
        if "state" in fields:
            changes["state"] = fields["state"].choice(("ready", "cordoned", "lost", "removed"))
        if "outside" in fields:
            changes["outside"] = fields["outside"].integer(least=0)
        if "labels" in fields:
            changes["labels"] = labels_of(fields["labels"])
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
