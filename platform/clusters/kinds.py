"""The kinds of Kubernetes objects that people may write themselves, as one table.

Where their pods and numbers lie, how they tell their end, what keeps them waiting. Nothing else knows one kind from
another.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from clusters import names, paths
from clusters.paths import Json, Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Tells an end: a condition that is true, or a field of the status with a value."""

    condition: str = ""
    field: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Where equal pods are written.

    ``at`` leads to a list of parts (named by their field ``name``), to a mapping of parts by name or, where ``single``,
    to one part, which is called ``name``. From a part ``template`` leads to its pod template and ``counts`` to numbers
    whose product is how many pods there are at once; a number that is absent is 1. ``most`` leads to a cap of them.

    Where a kind has no template, ``resources`` leads to what each pod asks for. ``job`` leads to the spec of a Job
    around the template. ``fields`` are all that a part may have (a single part is told by its kind's ``inside``),
    ``needed`` leads to a number that it must say, and ``settled`` to further numbers that a launch sets to the first
    of the ``counts``, so that no more pods run than were counted.
    """

    at: Path
    template: Path = ("template",)
    counts: tuple[Path, ...] = (("replicas",),)
    most: Path = ()
    name: str = "name"
    single: bool = False
    resources: Path = ()
    job: Path | None = None
    fields: frozenset[str] = frozenset()
    needed: Path = ()
    settled: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind in one version of its API.

    ``suspend`` leads to the flag that keeps it waiting, ``deadline`` to its own time limit in seconds. ``forced`` are
    fields that a launch sets whatever was written, so that pods end with their object. ``dropped`` are fields that a
    launch takes out, ``refused`` fields that are not taken, with the reason, and ``fields`` all that the spec may have;
    ``inside`` says the same of mappings in it, and ``only`` names fields with the one value that is taken, and why.
    ``env`` leads to variables of pods that have no template.

    ``overrides`` leads to changes of pods whose template lies elsewhere, and ``family`` names the label by which such
    pods name their object. ``ordinal`` names a label of pods that counts copies of a part, ``index`` the label or
    annotation that counts pods inside one. ``adopts``: suspended ones that people make are taken into the queue.
    ``standing`` leads to where its status counts copies that are ready and that have succeeded, in one mapping or in a
    list of them by the part's name. ``gave_up`` are the reasons with which it fails for pods that failed or went, and
    that its own retries no longer made anew; where there are none, every reason may be such a one.
    """

    name: str
    group: str
    version: str
    plural: str
    pods: tuple[Pods, ...]
    fields: frozenset[str]
    inside: tuple[tuple[Path, frozenset[str]], ...] = ()
    succeeded: tuple[Sign, ...]
    failed: tuple[Sign, ...]
    suspend: Path = ("spec", "suspend")
    deadline: Path = ()
    forced: tuple[tuple[Path, object], ...] = ()
    dropped: tuple[Path, ...] = ()
    refused: tuple[tuple[Path, str], ...] = ()
    ordinal: str = ""
    index: str = ""
    overrides: Path = ()
    env: Path = ()
    only: tuple[tuple[Path, str, str], ...] = ()
    family: str = ""
    adopts: bool = False
    standing: Path = ()
    gave_up: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """Return the API version as objects write it."""
        return f"{self.group}/{self.version}"

    @property
    def path(self) -> str:
        """Return the path of all objects of the kind in the cluster."""
        return f"/apis/{self.api}/{self.plural}"

    @property
    def key(self) -> str:
        """Return what names the kind and its version: ``jobs.v1.batch``."""
        return f"{self.plural}.{self.version}.{self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Equal pods of an object: how many at once, their template, and the pointer where that stands."""

    name: str
    pods: int
    template: Json
    pointer: str
    job: Json | None = None
    job_pointer: str = ""

    @property
    def spec(self) -> Json:
        """Return the spec of a pod."""
        return paths.mapping(self.template.get("spec"))


JOB_FIELDS = frozenset(
    {
        *("parallelism", "completions", "completionMode", "template", "suspend", "activeDeadlineSeconds"),
        *("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "podFailurePolicy", "successPolicy"),
        "podReplacementPolicy",
    }
)
JOB = Kind(
    name="Job",
    group="batch",
    version="v1",
    plural="jobs",
    pods=(Pods(at=("spec",), name="", single=True, counts=(("parallelism",),), most=("completions",)),),
    fields=JOB_FIELDS,
    succeeded=(Sign(condition="Complete"),),
    failed=(Sign(condition="Failed"),),
    deadline=("spec", "activeDeadlineSeconds"),
    # Deleted once its end is recorded; Jobs are found by our labels, so their own selector is the server's.
    dropped=(("spec", "ttlSecondsAfterFinished"), ("spec", "selector"), ("spec", "manualSelector")),
    refused=((("spec", "managedBy"), "another controller would run it"),),
    index=names.COMPLETION_INDEX,
    adopts=True,
    standing=("status",),
    gave_up=("BackoffLimitExceeded", "MaxFailedIndexesExceeded", "FailedIndexes"),
)
JOB_SET = Kind(
    name="JobSet",
    group="jobset.x-k8s.io",
    version="v1alpha2",
    plural="jobsets",
    pods=(
        Pods(
            at=("spec", "replicatedJobs"),
            template=("template", "spec", "template"),
            counts=(("replicas",), ("template", "spec", "parallelism")),
            job=("template", "spec"),
            fields=frozenset({"name", "groupName", "replicas", "template", "dependsOn"}),
        ),
    ),
    fields=frozenset(
        {
            *("replicatedJobs", "network", "successPolicy", "failurePolicy", "startupPolicy", "suspend"),
            "ttlSecondsAfterFinished",
        }
    ),
    succeeded=(Sign(condition="Completed"),),
    failed=(Sign(condition="Failed"),),
    dropped=(("spec", "ttlSecondsAfterFinished"),),
    refused=(
        (("spec", "managedBy"), "another controller would run it"),
        (("spec", "coordinator"), "it writes labels of its own into pods; name the coordinator's host in env instead"),
    ),
    ordinal="jobset.sigs.k8s.io/job-index",
    index=names.COMPLETION_INDEX,
    adopts=True,
    standing=("status", "replicatedJobsStatus"),
    gave_up=("FailedJobs", "ReachedMaxRestarts"),
)
_REPLICAS = frozenset({"replicas", "restartPolicy", "template"})
PYTORCH_JOB = Kind(
    name="PyTorchJob",
    group="kubeflow.org",
    version="v1",
    plural="pytorchjobs",
    pods=(Pods(at=("spec", "pytorchReplicaSpecs"), fields=_REPLICAS),),
    fields=frozenset({"pytorchReplicaSpecs", "runPolicy", "nprocPerNode"}),
    succeeded=(Sign(condition="Succeeded"),),
    failed=(Sign(condition="Failed"),),
    suspend=("spec", "runPolicy", "suspend"),
    deadline=("spec", "runPolicy", "activeDeadlineSeconds"),
    forced=((("spec", "runPolicy", "cleanPodPolicy"), "Running"),),
    dropped=(("spec", "runPolicy", "ttlSecondsAfterFinished"), ("spec", "runPolicy", "schedulingPolicy")),
    refused=(
        (("spec", "elasticPolicy"), "how many pods run would change behind the queue's back"),
        (("spec", "runPolicy", "managedBy"), "another controller would run it"),
    ),
    index="training.kubeflow.org/replica-index",
)
MPI_JOB = Kind(
    name="MPIJob",
    group="kubeflow.org",
    version="v2beta1",
    plural="mpijobs",
    pods=(Pods(at=("spec", "mpiReplicaSpecs"), fields=_REPLICAS),),
    fields=frozenset(
        {
            *("mpiReplicaSpecs", "runPolicy", "slotsPerWorker", "mpiImplementation", "launcherCreationPolicy"),
            *("sshAuthMountPath", "runLauncherAsWorker", "cleanPodPolicy", "mainContainer"),
        }
    ),
    succeeded=PYTORCH_JOB.succeeded,
    failed=PYTORCH_JOB.failed,
    suspend=PYTORCH_JOB.suspend,
    deadline=PYTORCH_JOB.deadline,
    forced=PYTORCH_JOB.forced,
    dropped=PYTORCH_JOB.dropped,
    refused=PYTORCH_JOB.refused[1:],
    index="training.kubeflow.org/replica-index",
)
# The training operator has an older one of that name.
OLD_MPI_JOB = replace(
    MPI_JOB,
    version="v1",
    forced=(*MPI_JOB.forced, (("spec", "cleanPodPolicy"), "Running")),
)
TRAIN_JOB = Kind(
    name="TrainJob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    plural="trainjobs",
    pods=(
        Pods(
            at=("spec", "trainer"),
            template=(),
            counts=(("numNodes",),),
            name="node",
            single=True,
            resources=("resourcesPerNode",),
            # What its runtime says instead is not seen here.
            needed=("numNodes",),
        ),
    ),
    fields=frozenset({"runtimeRef", "trainer", "initializer", "labels", "annotations", "suspend"}),
    inside=(
        (
            ("spec", "trainer"),
            frozenset({"image", "command", "args", "env", "numNodes", "numProcPerNode", "resourcesPerNode"}),
        ),
    ),
    succeeded=(Sign(condition="Complete"),),
    failed=(Sign(condition="Failed"),),
    refused=((("spec", "managedBy"), "another controller would run it"),),
    overrides=("spec", "podSpecOverrides"),
    env=("spec", "trainer", "env"),
    only=((("spec", "runtimeRef", "kind"), "ClusterTrainingRuntime", "its pods are not seen here"),),
    family="jobset.sigs.k8s.io/jobset-name",
    index=names.COMPLETION_INDEX,
)
RAY_JOB = Kind(
    name="RayJob",
    group="ray.io",
    version="v1",
    plural="rayjobs",
    pods=(
        Pods(at=("spec", "rayClusterSpec", "headGroupSpec"), counts=(), name="head", single=True),
        Pods(
            at=("spec", "rayClusterSpec", "workerGroupSpecs"),
            name="groupName",
            counts=(("replicas",), ("numOfHosts",)),
            # KubeRay runs at least and at most so many, whatever replicas says.
            settled=(("replicas",), ("minReplicas",), ("maxReplicas",)),
            fields=frozenset(
                {
                    *("groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams"),
                    *("template", "resources", "labels", "idleTimeoutSeconds"),
                }
            ),
        ),
    ),
    fields=frozenset(
        {
            *("entrypoint", "runtimeEnvYAML", "jobId", "metadata", "submissionMode", "rayClusterSpec", "suspend"),
            *("entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "shutdownAfterJobFinishes"),
            *("activeDeadlineSeconds", "backoffLimit", "submitterConfig", "ttlSecondsAfterFinished"),
        }
    ),
    # Left out: what opens the head to the world, and what starts or stops pods of its own.
    inside=(
        (
            ("spec", "rayClusterSpec"),
            frozenset(
                {
                    *("rayVersion", "headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling"),
                    *("autoscalerOptions",),
                }
            ),
        ),
        (
            ("spec", "rayClusterSpec", "headGroupSpec"),
            frozenset({"rayStartParams", "template", "resources", "labels"}),
        ),
        (("spec", "submitterConfig"), frozenset({"backoffLimit"})),
    ),
    succeeded=(
        Sign(field="jobStatus", value="SUCCEEDED"),
        Sign(field="jobDeploymentStatus", value="Complete"),
    ),
    failed=(
        Sign(field="jobStatus", value="FAILED"),
        Sign(field="jobStatus", value="STOPPED"),
        Sign(field="jobDeploymentStatus", value="Failed"),
    ),
    deadline=("spec", "activeDeadlineSeconds"),
    forced=((("spec", "shutdownAfterJobFinishes"), True),),
    dropped=(("spec", "ttlSecondsAfterFinished"),),
    refused=(
        (("spec", "clusterSelector"), "it would run on a Ray cluster that nobody admitted"),
        (("spec", "rayClusterSpec", "enableInTreeAutoscaling"), "how many pods run would change behind the queue"),
        (("spec", "rayClusterSpec", "autoscalerOptions"), "how many pods run would change behind the queue"),
        (("spec", "managedBy"), "another controller would run it"),
    ),
)

_PLACES_ITSELF = "alpha.jobset.sigs.k8s.io/"
KINDS: tuple[Kind, ...] = (JOB, JOB_SET, PYTORCH_JOB, TRAIN_JOB, MPI_JOB, OLD_MPI_JOB, RAY_JOB)
BY_KEY: Mapping[str, Kind] = {kind.key: kind for kind in KINDS}


def kind_of(manifest: Json) -> Kind | None:
    """Return the kind of an object as written, None where it is not in the table."""
    wanted = (manifest.get("apiVersion"), manifest.get("kind"))
    return next((kind for kind in KINDS if (kind.api, kind.name) == wanted), None)


def parts(kind: Kind, manifest: Json) -> tuple[Part, ...]:
    """Return the equal pods of an object, in the order in which they are written; what cannot be read is left out."""
    return tuple(_part(pods, *written) for pods in kind.pods for written in _written(pods, manifest))


def pod_counts(kind: Kind, manifest: Json) -> Iterator[tuple[str, object]]:
    """Yield each number of pods that an object says, whatever stands there, with its pointer."""
    for pods in kind.pods:
        for found, _, where in _written(pods, manifest):
            for path in (*pods.counts, pods.most):
                said = paths.at(found, path) if path else None
                if said is not None:
                    yield paths.pointer((*where, *path)), said


def unsaid(kind: Kind, manifest: Json) -> Iterator[str]:
    """Yield a pointer to each number that a part must say and does not."""
    for pods in kind.pods:
        for found, _, where in _written(pods, manifest):
            if pods.needed and paths.at(found, pods.needed) is None:
                yield paths.pointer((*where, *pods.needed))


def whole_parts(kind: Kind, manifest: Json) -> Iterator[tuple[str, Json, frozenset[str]]]:
    """Yield what an object has inside its spec of which all fields are known: its pointer, itself, and these."""
    for path, fields in kind.inside:
        yield paths.pointer(path), paths.mapping(paths.at(manifest, path)), fields
    for pods in kind.pods:
        for found, _, where in _written(pods, manifest) if pods.fields else ():
            yield paths.pointer(where), found, pods.fields


def places_itself(manifest: object, where: Path = ()) -> Iterator[str]:
    """Yield a pointer to each annotation by which JobSet chooses nodes or domains of its own."""
    if isinstance(manifest, list):
        for place, inner in enumerate(manifest):
            yield from places_itself(inner, (*where, str(place)))
    elif isinstance(manifest, Mapping):
        for key in paths.mapping(manifest.get("annotations")):
            if str(key).startswith(_PLACES_ITSELF):
                yield paths.pointer((*where, "annotations", str(key)))
        for key, inner in manifest.items():
            yield from places_itself(inner, (*where, str(key)))


def settle(kind: Kind, manifest: Json) -> None:
    """Write as many pods as were counted wherever an object says how many."""
    for pods in kind.pods:
        for found, _, _ in _written(pods, manifest) if pods.settled else ():
            if isinstance(found, dict):
                for path in pods.settled:
                    paths.put(found, path, _number(paths.at(found, pods.counts[0])))


def has_succeeded(kind: Kind, manifest: Json) -> bool:
    """Tell whether the object says that it has succeeded (and not also failed)."""
    return not has_failed(kind, manifest) and any(_shows(sign, manifest) for sign in kind.succeeded)


def has_failed(kind: Kind, manifest: Json) -> bool:
    """Tell whether the object says that it has failed."""
    return any(_shows(sign, manifest) for sign in kind.failed)


def has_begun(kind: Kind, manifest: Json) -> bool:
    """Tell whether an object says that every pod runs which it still wants at once; some have ended for good."""
    if not kind.standing or paths.at(manifest, kind.suspend) is True:
        return False
    found = paths.at(manifest, kind.standing)
    counts = {part.get("name"): part for part in found} if isinstance(found, list) else {"": found}
    return all(
        _is_ready(pods, part, paths.mapping(counts.get(name)))
        for pods in kind.pods
        for part, name, _ in _written(pods, manifest)
    )


def _is_ready(pods: Pods, part: Json, counts: Json) -> bool:
    once = _number(paths.at(part, pods.counts[0]))
    total = once if not pods.most else _number(paths.at(part, pods.most) or once)
    ready, succeeded = (counts.get(word) or 0 for word in ("ready", "succeeded"))
    return bool(ready >= min(once, total - succeeded))


def failure(kind: Kind, manifest: Json) -> str:
    """Return why the object failed, in its own words; nothing where it did not."""
    status = paths.mapping(manifest.get("status"))
    for sign in kind.failed:
        if _shows(sign, manifest):
            source = _condition(status, sign.condition) if sign.condition else status
            return ": ".join(str(source[key]) for key in ("reason", "message") if source.get(key))
    return ""


def _written(pods: Pods, manifest: Json) -> Iterator[tuple[Json, str, Path]]:
    """Yield each part as it is written, with its name and where it stands."""
    found = paths.at(manifest, pods.at)
    each: Iterable[tuple[str, str, object]] = ()
    if pods.single:
        each = [(pods.name, "", found)]
    elif isinstance(found, list):
        each = [
            (str(paths.mapping(part).get(pods.name) or place), str(place), part) for place, part in enumerate(found)
        ]
    elif isinstance(found, Mapping):
        each = [(str(name).lower(), str(name), part) for name, part in found.items()]
    for name, key, part in each:
        if isinstance(part, Mapping):
            yield part, name, (*pods.at, key) if key else pods.at


def _part(pods: Pods, found: Json, name: str, where: Path) -> Part:
    count = prod(_number(paths.at(found, path)) for path in pods.counts)
    most = paths.at(found, pods.most) if pods.most else None
    if pods.resources:
        container = {"name": name, "resources": paths.mapping(paths.at(found, pods.resources))}
        template: Json = {"spec": {"containers": [container]}}
    else:
        template = paths.mapping(paths.at(found, pods.template))
    place = (*where, *(pods.resources or pods.template))
    return Part(
        name=name,
        pods=count if most is None else min(count, _number(most)),
        template=template,
        pointer=paths.pointer(place),
        job=None if pods.job is None else paths.mapping(paths.at(found, pods.job)),
        job_pointer="" if pods.job is None else paths.pointer((*where, *pods.job)),
    )


def _number(found: object) -> int:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 1


def _shows(sign: Sign, manifest: Json) -> bool:
    status = paths.mapping(manifest.get("status"))
    if sign.condition:
        return _condition(status, sign.condition).get("status") == "True"
    return status.get(sign.field) == sign.value


def _condition(status: Json, kind: str) -> Json:
    return next((each for each in status.get("conditions") or () if each.get("type") == kind), {})
