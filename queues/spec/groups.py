"""Reading the groups of a spec: tasks, GPUs, resources, and what runs."""

from dataclasses import replace

from queues.admission.world import JobShape
from queues.spec import amounts, mounts
from queues.spec.counts import counts
from queues.spec.fields import Section, choose, kind, show
from queues.spec.forms import (
    ACCOUNT_SAYS,
    ANNOTATION_KEY,
    ENV_NAME,
    ENV_SAYS,
    GPUS,
    GPUS_SAYS,
    IMAGE,
    IMAGE_SAYS,
    MOST_CPU_MILLI,
    MOST_GROUPS,
    MOST_MEMORY,
    MOST_UNITS,
    NODE_KEY,
    NODE_SAYS,
    NODE_VALUE,
    RESOURCES_LATER,
    SECRET,
    SECRET_FORM,
    SHARED,
)
from queues.spec.hidden import HIDDEN, SAY_AGAIN
from queues.spec.podrules import DEVICES, NO_DEVICES, PAST_THE_QUEUE
from queues.spec.topology import topology
from queues.spec.values import TEST_ANNOTATIONS, Catalog, FlavorChoice, Run, SpecGroup, TeamChoice
from tenants.allowances import Allowance
from tenants.errors import FieldError


class Groups:
    """Reads the groups of a job; what one does not say it takes from the spec."""

    def __init__(self, body: Section, catalog: Catalog, team: TeamChoice, shape: JobShape) -> None:
        """Take what all groups share: the spec's body, the names there are, the team, and the job's shape."""
        self.body = body
        self.shape = shape
        self.catalog = catalog
        self.team = team
        for key in SHARED:
            body.take(key, None)

    def group(self, section: Section, name: str) -> SpecGroup:
        """Read one group; what it does not say is taken from the spec."""
        tasks, most = counts(section, self.shape)
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
            most=most,
            units=units,
            flavors=flavors,
            cpu_milli=cpu,
            memory=memory,
            topology=topology(section, self.catalog.levels),
            run=replace(run, shm=shm, node_labels=labels, annotations=annotations),
        )

    def _says(self, section: Section, key: str) -> Section:
        """Return the section that says a field: the group itself, else the spec; its errors are then told once."""
        section.take(key, None)
        if section is self.body or section.has(key):
            return section
        return Section(self.body.data, self.body.pointer, _Once(self.body.errors))

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
        flavors = self.flavors(gpus)
        gpus.close()
        return units, flavors

    def flavors(self, gpus: Section) -> tuple[FlavorChoice, ...]:
        """Return the GPU types that a section names, in order of wish; where it names none, all for the team."""
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
            flavor = choose(gpus, key, text, self.catalog.flavors, word="GPU type")
            if flavor is not None:
                found.setdefault(flavor.id, flavor)
        return tuple(found.values()) or self._any()

    def _any(self) -> tuple[FlavorChoice, ...]:
        """Return the flavors of which the team could ever get a unit, all where there is none."""
        catalog = self.catalog
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
            secret_env=mounts.secret_env(run),
            pull_secrets=run.texts("pull_secrets", most=20, each=253, form=SECRET, says=SECRET_FORM),
            pre_stop=run.texts("pre_stop", most=500, each=100_000),
            service_account=run.text("service_account", "", most=253, form=SECRET, says=ACCOUNT_SAYS),
            volumes=mounts.volumes(run, self.team.name, self.team.allows),
        )
        if found.service_account and Allowance.SERVICE_ACCOUNTS not in self.team.allows:
            detail = f"service accounts are not allowed to team {self.team.name}: a platform admin may allow it"
            run.wrong("service_account", "not_allowed", f"{detail} ({Allowance.SERVICE_ACCOUNTS})")
        for name in sorted({name for name, _ in found.secret_env} & {name for name, _ in found.env}):
            run.wrong(run.at("secret_env", name), "twice", f"{name} stands in env too", given=name)
        for name, value in found.env:
            if value == HIDDEN:
                run.wrong(run.at("env", name), "hidden", f"{name} {SAY_AGAIN}", given=HIDDEN)
        named = [("env", name) for name, _ in found.env] + [("secret_env", name) for name, _ in found.secret_env]
        for place, name in named:
            if name.startswith("TIDEGATE_"):
                run.wrong(run.at(place, name), "reserved", f"{name} is set by Tidegate itself", given=name)
            if name in DEVICES and (place == "secret_env" or dict(found.env)[name].lower() not in NO_DEVICES):
                run.wrong(run.at(place, name), "not_allowed", f"{name} {PAST_THE_QUEUE}", given=name)
        run.close()
        return found

    def _annotations(self, section: Section) -> tuple[tuple[str, str], ...]:
        if section.has("annotations") and not self.catalog.test_annotations:
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
