"""Compact spec to canonical value: one reading, every error."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from queues.admission.world import JobShape
from queues.spec import amounts
from queues.spec.counts import needs_range
from queues.spec.fields import Section, choose, kind, nearest, show
from queues.spec.forms import (
    DEFAULT_GRACE,
    DURATION_SAYS,
    GROUP_NAME,
    GROUP_NAME_SAYS,
    LABEL_KEY,
    LABEL_KEY_SAYS,
    LONGEST,
    MOST_GROUPS,
    MOST_LABELS,
    MOST_RETRIES,
    MOST_TASKS,
    NAME,
    NAME_SAYS,
    SPEC_LATER,
    WRITTEN,
)
from queues.spec.groups import Groups
from queues.spec.manifest import Manifest, deadline, grace, is_object, wrapped
from queues.spec.topology import refuse_alone, topology
from queues.spec.values import (
    API_VERSION,
    Catalog,
    PriorityChoice,
    QueueChoice,
    Spec,
    SpecGroup,
    TeamChoice,
)
from tenants.errors import FieldError, Invalid, NotFound

UNKNOWN_TEAM = "unknown_team"


def read(data: object, catalog: Catalog, *, team: str | None = None) -> Spec:
    """Return the canonical value of a compact spec or a Kubernetes object, or raise Invalid with every wrong field.

    ``team`` is whose it is whatever an object says.
    """
    errors: list[FieldError] = []
    outer = None
    if isinstance(data, dict) and is_object(data):
        outer = wrapped(data, {team.namespace: team.name for team in catalog.teams})
        data = outer.spec
        if team is not None:
            data["metadata"]["team"] = team
    if not isinstance(data, dict):
        detail = f"a job is a mapping with apiVersion, kind, metadata and spec, not {kind(data)}"
        raise Invalid.field("", detail, code="not_a_mapping", given=show(data))
    spec = _Reading(Section(data, "", errors), catalog).spec()
    if not errors:
        return spec
    if outer is not None:
        errors = [replace(error, pointer=outer.pointer(error.pointer)) for error in errors]
    first = errors[0].detail
    detail = first if len(errors) == 1 else f"{first} (and {len(errors) - 1} more)"
    if any(error.code == UNKNOWN_TEAM for error in errors):
        # A team that is not there and one that somebody may not see answer alike.
        raise NotFound(detail, code=UNKNOWN_TEAM, fields=errors)
    raise Invalid(detail, code="invalid_spec", fields=errors)


class _Reading:
    """One reading of one spec; a field that is wrong is noted and read as something harmless."""

    def __init__(self, top: Section, catalog: Catalog) -> None:
        self.catalog = catalog
        self.top = top
        self.errors = top.errors
        self._kind()
        self.metadata = top.section("metadata", required=True)
        self.body = _with_own_limits(top.section("spec", required=True))
        self.manifest: Manifest | None = None
        top.close()

    def spec(self) -> Spec:
        """Read everything."""
        metadata, body = self.metadata, self.body
        name = metadata.text("name", most=200, form=NAME, says=NAME_SAYS)
        team = self._team()
        queue = self._queue(team)
        external_id = metadata.text("external_id", "", most=200) or None
        labels = metadata.pairs("labels", most=MOST_LABELS, each=200, form=LABEL_KEY, says=LABEL_KEY_SAYS)
        metadata.close()
        shape = self._shape()
        spec = Spec(
            name=name,
            team=team,
            queue=queue,
            external_id=external_id,
            labels=labels,
            shape=shape,
            groups=self._groups(team, shape),
            topology=topology(self.body, self.catalog.levels) if body.has("groups") or body.has("manifest") else None,
            time_limit=self._time_limit(queue),
            priority=self._priority(queue),
            borrow=body.flag("borrow", default=True),
            grace=self._duration("grace", DEFAULT_GRACE, most=timedelta(hours=1)) or timedelta(),
            retries=body.whole("retries", 0, least=0, most=MOST_RETRIES),
            manifest=self.manifest.kept() if self.manifest else None,
            kind=self.manifest.kind.key if self.manifest and self.manifest.kind else "",
        )
        body.close(SPEC_LATER)
        return self._whole(spec)

    def _kind(self) -> None:
        version = self.top.text("apiVersion", says=API_VERSION)
        if version and version != API_VERSION:
            self.top.wrong(
                "apiVersion",
                "unknown_version",
                f"apiVersion is {API_VERSION}; not {show(version)}",
                given=version,
                allowed=[API_VERSION],
            )
        of_kind = self.top.text("kind", says="Job")
        if of_kind and of_kind != "Job":
            self.top.wrong("kind", "unknown_kind", f"kind is Job; not {show(of_kind)}", given=of_kind, allowed=["Job"])

    def _team(self) -> TeamChoice:
        teams = self.catalog.teams
        nobody = TeamChoice(id=0, name="", queues=())
        if not self.metadata.has("team"):
            if len(teams) == 1:
                self.metadata.take("team", None)
                return teams[0]
            names = ", ".join(team.name for team in teams) or "no team: you are a member of none"
            self.metadata.take("team", None)
            self.metadata.wrong(
                "team", "required", f"team is needed, one of {names}", allowed=[team.name for team in teams]
            )
            return nobody
        given = self.metadata.text("team", most=63)
        return choose(self.metadata, "team", given, teams, word="team") or nobody

    def _queue(self, team: TeamChoice) -> QueueChoice:
        given = self.metadata.text("queue", "default", most=63)
        nothing = QueueChoice(id=0, name="", default_time_limit=None, max_time_limit=None, max_grace=timedelta())
        if not team.id:
            return nothing
        where = f" in team {team.name}"
        return choose(self.metadata, "queue", given, team.queues, word="queue", where=where) or nothing

    def _shape(self) -> JobShape:
        given = self.body.text("shape", JobShape.INDEPENDENT.value, most=20)
        allowed = [shape.value for shape in JobShape]
        if not given or given in allowed:
            return JobShape(given or JobShape.INDEPENDENT)
        near = nearest(given, allowed)
        hint = f"; did you mean {near}?" if near else ""
        detail = f"shape is independent, gang or elastic, not {show(given)}{hint}"
        self.body.wrong("shape", "unknown_shape", detail, given=given, allowed=allowed)
        return JobShape.INDEPENDENT

    def _groups(self, team: TeamChoice, shape: JobShape) -> tuple[SpecGroup, ...]:
        common = Groups(self.body, self.catalog, team, shape)
        if self.body.take("manifest", None) is not None:
            return self._written(common, team)
        given = self.body.take("groups", None)
        if given is None:
            return (common.group(self.body, ""),)
        if not isinstance(given, list) or not given or not all(isinstance(row, dict) for row in given):
            self.body.wrong(
                "groups", "not_a_list", "groups is a list of mappings with name, tasks and gpus", given=given
            )
            return ()
        if len(given) > MOST_GROUPS:
            self.body.wrong("groups", "too_many", f"groups has at most {MOST_GROUPS} entries, not {len(given)}")
            return ()
        if self.body.has("tasks"):
            self.body.wrong("tasks", "not_with_groups", "tasks stands in each group where there are groups")
        self.body.take("tasks", None)
        sections = [Section(row, self.body.at("groups", place), self.errors) for place, row in enumerate(given)]
        groups = tuple(
            common.group(section, section.text("name", most=63, form=GROUP_NAME, says=GROUP_NAME_SAYS))
            for section in sections
        )
        names = [group.name for group in groups if group.name]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.body.wrong("groups", "twice", f"two groups are called {name}", given=name)
        for section in sections:
            section.close()
        return groups

    def _written(self, common: Groups, team: TeamChoice) -> tuple[SpecGroup, ...]:
        """Read the groups out of what people wrote; the spec around it says the rest."""
        for key in (*WRITTEN, "groups"):
            self.body.take(key, None)
            if self.body.has(key):
                self.body.wrong(key, "not_with_manifest", f"{key} is what the manifest itself says")
        gpus = self.body.section("gpus")
        flavors = common.flavors(gpus)
        gpus.close()
        self.manifest = Manifest(self.body, team, flavors)
        return self.manifest.groups()

    def _time_limit(self, queue: QueueChoice) -> timedelta | None:
        most = queue.max_time_limit
        if self.body.take("time_limit", None) == "none":
            if most is None:
                return None
            detail = f"a job of queue {queue.name} needs a time limit of at most {amounts.duration_text(most)}"
            self.body.wrong("time_limit", "too_long", detail, given="none", allowed=[amounts.duration_text(most)])
            return None
        limit = self._duration("time_limit", None, least=timedelta(seconds=1), most=LONGEST)
        if limit is None:
            default = queue.default_time_limit if queue.default_time_limit is not None else most
            return min(default, most) if default is not None and most is not None else default
        if most is not None and limit > most:
            text = amounts.duration_text(most)
            detail = f"a job of queue {queue.name} runs for at most {text}, not {amounts.duration_text(limit)}"
            self.body.wrong("time_limit", "too_long", detail, given=amounts.duration_text(limit), allowed=[text])
        return limit

    def _duration(
        self, key: str, default: timedelta | None, *, least: timedelta = timedelta(), most: timedelta
    ) -> timedelta | None:
        length = self.body.parsed(key, amounts.duration, default, f"a duration: {DURATION_SAYS}")
        if length is not None and not least <= length <= most:
            bounds = [amounts.duration_text(least), amounts.duration_text(most)]
            detail = f"{key} is from {bounds[0]} to {bounds[1]}, not {amounts.duration_text(length)}"
            self.body.wrong(key, "out_of_range", detail, given=self.body.data.get(key), allowed=bounds)
            return default
        return length

    def _priority(self, queue: QueueChoice) -> PriorityChoice:
        choices = self.catalog.priorities
        fallback = next((choice for choice in choices if choice.name == "normal"), None)
        fallback = fallback or min(choices, key=lambda choice: (abs(choice.value), choice.id), default=None)
        given = self.body.text("priority", fallback.name if fallback else None, most=63)
        found = choose(self.body, "priority", given, choices, word="priority class")
        if found is not None and queue.max_priority is not None and found.value > queue.max_priority:
            allowed = [choice.name for choice in choices if choice.value <= queue.max_priority]
            detail = f"queue {queue.name} allows priority {', '.join(allowed) or 'none'}; not {found.name}"
            self.body.wrong("priority", "priority_too_high", detail, given=found.name, allowed=allowed)
        return found or fallback or PriorityChoice(id=0, name="", value=0, preemptible=True)

    def _whole(self, spec: Spec) -> Spec:
        """Look at what fields mean together."""
        if spec.manifest is not None:
            return self._together(spec)
        if len(spec.groups) > 1 and spec.shape is JobShape.INDEPENDENT:
            self.body.wrong(
                "shape",
                "groups_need_gang",
                "a job with several groups starts together: say shape: gang, or elastic",
                given=spec.shape,
            )
        if spec.shape is JobShape.INDEPENDENT and len(spec.groups) == 1:
            refuse_alone(self.body, spec.groups[0], grouped=self.body.has("groups"))
        if spec.shape is JobShape.ELASTIC and spec.groups and all(group.most is None for group in spec.groups):
            needs_range(self.body, grouped=self.body.has("groups"))
        if spec.most_tasks > MOST_TASKS:
            self.body.wrong("groups", "out_of_range", f"a job has at most {MOST_TASKS} tasks, not {spec.most_tasks}")
        if len(spec.groups) == 1 and spec.groups[0].name:
            only = spec.groups[0]
            return replace(
                spec, topology=None, groups=(replace(only, name="", topology=only.topology or spec.topology),)
            )
        return spec

    def _together(self, spec: Spec) -> Spec:
        """Return what people wrote as one gang: its controller makes all pods at once."""
        if self.body.has("shape") and spec.shape is not JobShape.GANG:
            self.body.wrong("shape", "not_with_manifest", "the pods of a manifest start together: shape is gang")
        if spec.tasks > MOST_TASKS:
            self.body.wrong("manifest", "out_of_range", f"a job has at most {MOST_TASKS} tasks, not {spec.tasks}")
        if len(spec.groups) != 1:
            return replace(spec, shape=JobShape.GANG)
        only = replace(spec.groups[0], topology=spec.topology)
        return replace(spec, shape=JobShape.GANG, topology=None, groups=(only,))


def _with_own_limits(body: Section) -> Section:
    """Return the spec's body with the time limit and the grace that its object names, unless it says others."""
    own: dict[object, object] = {
        "time_limit": deadline(body.data.get("manifest")),
        "grace": grace(body.data.get("manifest")),
    }
    added = {key: value for key, value in own.items() if value is not None and not body.has(str(key))}
    return Section({**body.data, **added}, body.pointer, body.errors) if added else body
