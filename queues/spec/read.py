"""Compact spec to canonical value: one reading, every error."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from queues.admission.world import JobShape
from queues.spec import amounts
from queues.spec.fields import Section, kind, nearest, show
from queues.spec.values import (
    API_VERSION,
    TEST_ANNOTATIONS,
    Catalog,
    FlavorChoice,
    PriorityChoice,
    QueueChoice,
    Run,
    Spec,
    SpecGroup,
    TeamChoice,
)
from tenants.errors import FieldError, Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

Named = TypeVar("Named", FlavorChoice, PriorityChoice, QueueChoice, TeamChoice)

MOST_TASKS = 10_000
MOST_UNITS = 100_000
MOST_GROUPS = 16
MOST_LABELS = 32
MOST_NAMES = 20
MOST_RETRIES = 10
MOST_CPU_MILLI = 100_000_000
MOST_MEMORY = 2**60
LONGEST = timedelta(days=365)
DEFAULT_GRACE = timedelta(seconds=30)

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
NAME_SAYS = "letters, digits, '.', '_' and '-', starting and ending with a letter or digit"
GROUP_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
GROUP_NAME_SAYS = "up to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit"
LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,98}[A-Za-z0-9])?")
LABEL_KEY_SAYS = "up to 100 letters, digits, '.', '_', '/' and '-', starting and ending with a letter or digit"
NODE_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
NODE_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
NODE_SAYS = "written as Kubernetes writes labels"
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")
ENV_SAYS = "letters, digits, '_', '.' and '-', not starting with a digit"
SECRET = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
SECRET_FORM = "the name of a Kubernetes Secret: a-z, 0-9, '-' and '.'"  # noqa: S105  words about a name
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
IMAGE_SAYS = "an image reference like registry.example/name:tag"
GPUS = re.compile(r"(?P<type>[a-z0-9-]{1,63}):(?P<count>\d{1,9})", re.ASCII)
GPUS_SAYS = '{count: 8, type: h100} or "h100:8"'
DURATION_SAYS = '"12h", "90m", "1d6h" or whole seconds'
ANNOTATION_KEY = re.compile(re.escape(TEST_ANNOTATIONS) + r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

SHARED = ("gpus", "resources", "run", "node_labels", "annotations")
SPEC_LATER = {
    "topology": "topology is not supported yet; it comes with a later release",
    "notify": "notify is not supported yet; it comes with a later release",
    "parallelism": "parallelism is not supported yet; it comes with a later release",
    "manifest": "raw Kubernetes manifests are not supported yet; describe the job with run, gpus and tasks",
}
RESOURCES_LATER = {"ephemeral": "ephemeral storage is not supported yet; it comes with a later release"}


def read(data: object, catalog: Catalog) -> Spec:
    """Return the canonical value of a compact spec, or raise Invalid with every wrong field."""
    errors: list[FieldError] = []
    if not isinstance(data, dict):
        detail = f"a job is a mapping with apiVersion, kind, metadata and spec, not {kind(data)}"
        raise Invalid.field("", detail, code="not_a_mapping", given=show(data))
    spec = _Reading(Section(data, "", errors), catalog).spec()
    if errors:
        first = errors[0].detail
        detail = first if len(errors) == 1 else f"{first} (and {len(errors) - 1} more)"
        # A team that is not there and one that somebody may not see answer alike.
        unknown = any(error.code == "unknown_team" for error in errors)
        raise (
            NotFound(detail, code="unknown_team", fields=errors)
            if unknown
            else Invalid(detail, code="invalid_spec", fields=errors)
        )
    return spec


class _Reading:
    """One reading of one spec; a field that is wrong is noted and read as something harmless."""

    def __init__(self, top: Section, catalog: Catalog) -> None:
        self.catalog = catalog
        self.top = top
        self.errors = top.errors
        self._kind()
        self.metadata = top.section("metadata", required=True)
        self.body = top.section("spec", required=True)
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
        spec = Spec(
            name=name,
            team=team,
            queue=queue,
            external_id=external_id,
            labels=labels,
            shape=self._shape(),
            groups=self._groups(team),
            time_limit=self._time_limit(queue),
            priority=self._priority(queue),
            borrow=body.flag("borrow", default=True),
            grace=self._duration("grace", DEFAULT_GRACE, most=timedelta(hours=1)) or timedelta(),
            retries=body.whole("retries", 0, least=0, most=MOST_RETRIES),
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
        return self.named(self.metadata, "team", given, teams, word="team") or nobody

    def _queue(self, team: TeamChoice) -> QueueChoice:
        given = self.metadata.text("queue", "default", most=63)
        nothing = QueueChoice(id=0, name="", default_time_limit=None, max_time_limit=None, max_grace=timedelta())
        if not team.id:
            return nothing
        where = f" in team {team.name}"
        return self.named(self.metadata, "queue", given, team.queues, word="queue", where=where) or nothing

    def named(
        self, section: Section, key: str, given: str, choices: Sequence[Named], *, word: str, where: str = ""
    ) -> Named | None:
        """Return the choice of that name, or note which there are."""
        for choice in choices:
            if choice.name == given:
                return choice
        if given:
            names = [choice.name for choice in choices]
            near = nearest(given, names)
            hint = f"did you mean {near}?" if near else f"there is {', '.join(names[:MOST_NAMES]) or 'none'}"
            code = f"unknown_{word.replace(' ', '_').lower()}"
            detail = f"there is no {word} {show(given)}{where}; {hint}"
            section.wrong(key, code, detail, given=given, allowed=names)
        return None

    def _shape(self) -> JobShape:
        given = self.body.text("shape", JobShape.INDEPENDENT.value, most=20)
        allowed = [JobShape.INDEPENDENT.value, JobShape.GANG.value]
        if given == JobShape.ELASTIC.value:
            detail = "elastic jobs are not supported yet; they come with the next release: use gang or independent"
            self.body.wrong("shape", "not_yet", detail, given=given, allowed=allowed)
        elif given and given not in allowed:
            near = nearest(given, allowed)
            detail = f"shape is independent or gang, not {show(given)}" + (f"; did you mean {near}?" if near else "")
            self.body.wrong("shape", "unknown_shape", detail, given=given, allowed=allowed)
        else:
            return JobShape(given or JobShape.INDEPENDENT)
        return JobShape.INDEPENDENT

    def _groups(self, team: TeamChoice) -> tuple[SpecGroup, ...]:
        common = _Common(self, self.body, team)
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
        found = self.named(self.body, "priority", given, choices, word="priority class")
        if found is not None and queue.max_priority is not None and found.value > queue.max_priority:
            allowed = [choice.name for choice in choices if choice.value <= queue.max_priority]
            detail = f"queue {queue.name} allows priority {', '.join(allowed) or 'none'}; not {found.name}"
            self.body.wrong("priority", "priority_too_high", detail, given=found.name, allowed=allowed)
        return found or fallback or PriorityChoice(id=0, name="", value=0, preemptible=True)

    def _whole(self, spec: Spec) -> Spec:
        """Look at what fields mean together."""
        if len(spec.groups) > 1 and spec.shape is JobShape.INDEPENDENT:
            self.body.wrong(
                "shape",
                "groups_need_gang",
                "a job with several groups starts together: say shape: gang",
                given=spec.shape,
            )
        if spec.tasks > MOST_TASKS:
            self.body.wrong("groups", "out_of_range", f"a job has at most {MOST_TASKS} tasks, not {spec.tasks}")
        if len(spec.groups) == 1 and spec.groups[0].name:
            return replace(spec, groups=(replace(spec.groups[0], name=""),))
        return spec


class _Common:
    """What the groups of a job share unless a group says otherwise."""

    def __init__(self, reading: _Reading, body: Section, team: TeamChoice) -> None:
        self.reading = reading
        self.body = body
        self.team = team
        for key in SHARED:
            body.take(key, None)

    def group(self, section: Section, name: str) -> SpecGroup:
        """Read one group; what it does not say is taken from the spec."""
        tasks = section.whole("tasks", 1, least=1, most=MOST_TASKS)
        units, flavors = self._gpus(self._says(section, "gpus"))
        cpu, memory, shm = self._resources(self._says(section, "resources"), units, flavors)
        source = self._says(section, "run")
        run = self._run(source.section("run", required=True))
        labels = self._says(section, "node_labels").pairs(
            "node_labels", most=16, each=63, form=NODE_KEY, says=NODE_SAYS, value=NODE_VALUE
        )
        annotations = self._annotations(self._says(section, "annotations"))
        return SpecGroup(
            name=name,
            tasks=tasks,
            units=units,
            flavors=flavors,
            cpu_milli=cpu,
            memory=memory,
            run=replace(run, shm=shm, node_labels=labels, annotations=annotations),
        )

    def _says(self, section: Section, key: str) -> Section:
        """Return the section that says a field: the group itself, else the spec; its errors are then told once."""
        section.take(key, None)
        if section is self.body or section.has(key):
            return section
        return Section(self.body.data, self.body.pointer, _Once(self.reading.errors))

    def _gpus(self, section: Section) -> tuple[int, tuple[FlavorChoice, ...]]:
        given = section.take("gpus", None)
        if given is None:
            section.wrong("gpus", "required", f"gpus is needed: {GPUS_SAYS}")
            return 1, self._any()
        if isinstance(given, str):
            found = GPUS.fullmatch(given.strip())
            if found is None:
                section.wrong("gpus", "bad_form", f"gpus is {GPUS_SAYS}; not {show(given)!r}", given=given)
                return 1, self._any()
            given = {"count": int(found["count"]), "type": found["type"]}
        if not isinstance(given, dict):
            section.wrong("gpus", "bad_form", f"gpus is {GPUS_SAYS}, not {kind(given)}", given=given)
            return 1, self._any()
        gpus = Section(given, section.at("gpus"), section.errors)
        units = gpus.whole("count", None, least=1, most=MOST_UNITS)
        flavors = self._flavors(gpus)
        gpus.close()
        return units, flavors

    def _flavors(self, gpus: Section) -> tuple[FlavorChoice, ...]:
        given = gpus.take("type", None)
        if given is None:
            return self._any()
        names = given if isinstance(given, list) else [given]
        if not names or len(names) > MOST_GROUPS:
            gpus.wrong("type", "bad_form", f"type is one to {MOST_GROUPS} names of GPU types", given=given)
            return self._any()
        found: dict[int, FlavorChoice] = {}
        for place, name in enumerate(names):
            key = gpus.at("type", place) if isinstance(given, list) else "type"
            text = gpus.checked(key, name, most=63)
            flavor = self.reading.named(gpus, key, text, self.reading.catalog.flavors, word="GPU type")
            if flavor is not None:
                found.setdefault(flavor.id, flavor)
        return tuple(found.values()) or self._any()

    def _any(self) -> tuple[FlavorChoice, ...]:
        """Return the flavors of which the team could ever get a unit, all where there is none."""
        catalog = self.reading.catalog
        flavors = tuple(sorted(catalog.flavors, key=lambda flavor: flavor.id))
        possible = tuple(flavor for flavor in flavors if catalog.ceilings.most(self.team.id, flavor.id) > 0)
        if not flavors:
            self.body.wrong("gpus", "no_gpu_types", "no GPU type is set up yet")
        return possible or flavors

    def _resources(self, section: Section, units: int, flavors: tuple[FlavorChoice, ...]) -> tuple[int, int, int]:
        resources = section.section("resources")
        first = flavors[0] if flavors else None
        default = (units * first.default_cpu_milli, units * first.default_memory) if first else (1000, 2**30)
        cpu = resources.parsed("cpu", amounts.cpu_milli, default[0], 'CPU cores: 4, 0.5, "500m"')
        memory = resources.parsed("memory", amounts.memory, default[1], 'memory: "16Gi", "512Mi" or whole bytes')
        shm = resources.parsed("shm", amounts.memory, 0, 'memory: "16Gi", "512Mi" or whole bytes')
        for key, amount, most in (("cpu", cpu, MOST_CPU_MILLI), ("memory", memory, MOST_MEMORY)):
            if resources.has(key) and not 0 < amount <= most:
                resources.wrong(key, "out_of_range", f"{key} is above zero and sane", given=resources.data[key])
        if shm > memory:
            resources.wrong(
                "shm", "out_of_range", "shm is a part of memory and cannot be more", given=resources.data["shm"]
            )
        resources.close(RESOURCES_LATER)
        return min(cpu, MOST_CPU_MILLI), min(memory, MOST_MEMORY), min(shm, MOST_MEMORY)

    def _run(self, run: Section) -> Run:
        found = Run(
            image=run.text("image", most=500, form=IMAGE, says=IMAGE_SAYS),
            command=run.texts("command", most=500, each=100_000),
            args=run.texts("args", most=2000, each=100_000),
            env=run.pairs("env", most=200, each=32_768, form=ENV_NAME, says=ENV_SAYS),
            secrets=run.texts("secrets", most=20, each=253, form=SECRET, says=SECRET_FORM),
        )
        for name, _ in found.env:
            if name.startswith("TIDEGATE_"):
                run.wrong(run.at("env", name), "reserved", f"{name} is set by Tidegate itself", given=name)
        run.close()
        return found

    def _annotations(self, section: Section) -> tuple[tuple[str, str], ...]:
        if section.has("annotations") and not self.reading.catalog.test_annotations:
            section.wrong("annotations", "not_allowed", "annotations are for tests and demos and not allowed here")
            return ()
        says = f"{TEST_ANNOTATIONS} and up to 63 of a-z, 0-9 and '-'"
        return section.pairs("annotations", most=16, each=200, form=ANNOTATION_KEY, says=says)


class _Once(list[FieldError]):
    """Errors of what groups share: noted in the spec's list, each once."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__()
        self._errors = errors

    def append(self, error: FieldError) -> None:
        """Note an error unless it is there."""
        if error not in self._errors:
            self._errors.append(error)
