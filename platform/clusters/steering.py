"""Where a wave's pods may go: gates, affinities, tolerations and spreading, as a pod writes them."""

from typing import Any, TypeAlias

from clusters import names
from clusters.port import Closeness, GroupSpec, Launch, Near, Placement, Toleration

Manifest: TypeAlias = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OF_NODE = 100
_OF_DOMAIN = 50


def steering(launch: Launch, group: GroupSpec) -> Manifest:
    """Return the fields of a pod that send it where it was planned, or where its wishes allow."""
    gated = is_gated(launch, group)
    found: Manifest = {"schedulingGates": [{"name": names.GATE}]} if gated else {}
    if affinities := narrowed(launch, group, None if gated else group.tasks[0].node):
        found["affinity"] = affinities
    if constraints := spreading(launch, group):
        found["topologySpreadConstraints"] = constraints
    return found


def is_gated(launch: Launch, group: GroupSpec) -> bool:
    """Tell whether pods wait for their pin: tasks on several nodes, or indices that only a pin can tell."""
    several_nodes = len({task.node for task in group.tasks}) > 1
    return (several_nodes and launch.placement is not Placement.FREE) or not index_is_known(group)


def index_is_known(group: GroupSpec) -> bool:
    """Tell whether a pod's completion index is its task's index in the job."""
    return len(group.tasks) == 1 or all(task.task == task.index for task in group.tasks)


def affinity(node: str, placement: Placement) -> Manifest | None:
    """Return what sends a pod to a node, None where it may go anywhere."""
    match placement:
        case Placement.PIN:
            return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_term("", (node,))]}}}
        case Placement.PREFER:
            return {"nodeAffinity": {_PREFERRED: [_preference(_OF_NODE, "", (node,))]}}
        case Placement.FREE:
            return None


def spreading(launch: Launch, group: GroupSpec) -> list[Manifest]:
    """Return how pods that are not pinned spread over domains: strictly within a skew, else as well as they can."""
    if launch.placement is Placement.PIN:
        return []
    return [_constraint(launch, group, each) for each in group.closeness if each.near is Near.SPREAD and each.domains]


def toleration(wanted: Toleration) -> dict[str, str]:
    """Return a toleration as a pod writes it."""
    fields = {"key": wanted.key, "operator": wanted.operator, "value": wanted.value, "effect": wanted.effect}
    return {name: value for name, value in fields.items() if value}


def narrowed(launch: Launch, group: GroupSpec, node: str | None) -> Manifest | None:
    """Return the affinity to a node (None: a pin will tell), and to the domains of the plan for what is not pinned."""
    if launch.placement is Placement.PIN:
        return None if node is None else affinity(node, launch.placement)
    required = [_term(each.key, each.domains) for each in group.closeness if each.domains and _binds(launch, each)]
    wanted = node is not None and launch.placement is Placement.PREFER
    preferred = [_preference(_OF_NODE, "", (str(node),))] if wanted else []
    preferred += [
        _preference(_OF_DOMAIN, each.key, each.domains)
        for each in group.closeness
        if each.near is Near.PREFERRED and each.domains
    ]
    found: Manifest = {_REQUIRED: {"nodeSelectorTerms": [_both(required)]}} if required else {}
    if preferred:
        found[_PREFERRED] = preferred
    return {"nodeAffinity": found} if found else None


def domain_labels(launch: Launch, group: GroupSpec) -> dict[str, str]:
    """Return the labels of the one domain that pods must stay in which are not pinned."""
    if launch.placement is Placement.PIN:
        return {}
    required = (each for each in group.closeness if each.near is Near.REQUIRED and each.key)
    return {each.key: each.domains[0] for each in required if len(each.domains) == 1}


def _binds(launch: Launch, wish: Closeness) -> bool:
    # Kubernetes counts full domains too, and would wait for them for ever: only those of the plan are to count.
    return wish.near is Near.REQUIRED or _is_strict(launch, wish)


def _is_strict(launch: Launch, wish: Closeness) -> bool:
    return wish.near is Near.SPREAD and wish.max_skew is not None and launch.gang


def _constraint(launch: Launch, group: GroupSpec, wish: Closeness) -> Manifest:
    # Tasks of an independent job look at all of the job's; those that start together, at each other.
    label, of = (names.LABEL_WAVE, launch.wave) if launch.gang else (names.LABEL_JOB, launch.job)
    chosen = {label: names.label_value(of)}
    if not wish.whole:
        chosen[names.LABEL_GROUP] = str(group.group)
    return {
        "maxSkew": wish.max_skew or 1,
        "topologyKey": wish.key or HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule" if _is_strict(launch, wish) else "ScheduleAnyway",
        "labelSelector": {"matchLabels": chosen},
    }


def _preference(weight: int, key: str, values: tuple[str, ...]) -> Manifest:
    return {"weight": weight, "preference": _term(key, values)}


def _term(key: str, values: tuple[str, ...]) -> Manifest:
    """Return a term for nodes whose label ``key`` has one of the values; without a key, for nodes of these names."""
    if key:
        return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    if len(values) == 1:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(values)}]}
    # A field takes one value only.
    return {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(values)}]}


def _both(terms: list[Manifest]) -> Manifest:
    """Return one term that asks for all: terms side by side are alternatives."""
    keys = dict.fromkeys(key for term in terms for key in term)
    return {key: [row for term in terms for row in term.get(key, [])] for key in keys}
