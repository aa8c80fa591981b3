"""Whether a pod fits a node, and how well: the rules of the scheduler's filters. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clusters.emulator.quantities import milli
from clusters.emulator.quotas import Amounts, requests
from clusters.emulator.selectors import matches_term
from clusters.emulator.store import Object

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(slots=True)
class Room:
    """A node, what it can give and what its pods take, in thousandths."""

    node: Object
    total: Amounts
    used: Amounts = field(default_factory=dict)

    def take(self, amounts: Mapping[str, int], sign: int) -> None:
        """Add (1) or give back (-1) a pod's amounts."""
        for key, amount in amounts.items():
            self.used[key] = self.used.get(key, 0) + sign * amount


def allocatable(node: Object) -> Amounts:
    """Return what a node can give, in thousandths."""
    status = node.get("status") or {}
    return {
        key: milli(str(value)) for key, value in (status.get("allocatable") or status.get("capacity") or {}).items()
    }


def amounts(pod: Object) -> Amounts:
    """Return what a pod takes of a node: its requests and one place."""
    return {**requests(pod), "pods": 1000}


def tolerates(toleration: Object, taint: Object) -> bool:
    """Tell whether a toleration covers a taint."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def untolerated(spec: Object, taints: list[Object], *effects: str) -> list[Object]:
    """Return the taints of these effects that the pod does not tolerate."""
    tolerations = spec.get("tolerations") or []
    return [
        taint
        for taint in taints
        if taint["effect"] in effects and not any(tolerates(each, taint) for each in tolerations)
    ]


def complaints(spec: Object, wanted: Amounts, room: Room) -> list[str]:
    """Return why the pod cannot go to the node, in kube-scheduler's words; nothing when it can."""
    node = room.node
    node_spec = node.get("spec") or {}
    marker = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
    if node_spec.get("unschedulable") and untolerated(spec, [marker], "NoSchedule"):
        return ["node(s) were unschedulable"]
    taints = untolerated(spec, node_spec.get("taints") or [], "NoSchedule", "NoExecute")
    if taints:
        return ["node(s) had untolerated taint(s)"]
    if not selected(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    short = []
    if room.used.get("pods", 0) + 1000 > room.total.get("pods", 0):
        short.append("Too many pods")
    for key, amount in wanted.items():
        if key != "pods" and amount and amount + room.used.get(key, 0) > room.total.get(key, 0):
            short.append(f"Insufficient {key}")
    return short


def selected(spec: Object, node: Object) -> bool:
    """Tell whether node selector and required affinity allow the node; its terms are alternatives."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    return required is None or any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or [])


def named(spec: Object) -> frozenset[str] | None:
    """Return the only nodes that a pod's required affinity allows by name; None where it allows others."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    names: set[str] = set()
    for term in required.get("nodeSelectorTerms") or [{}]:
        wanted = [each["values"] for each in term.get("matchFields") or () if each.get("operator") == "In"]
        if not wanted:
            return None
        names.update(wanted[0])
    return frozenset(names)


def score(spec: Object, wanted: Amounts, room: Room) -> tuple[int, int, int]:
    """Return how welcome the pod is on a node where it fits: preferred affinity, soft taints, then what stays free."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_PREFERRED) or []
    liked = sum(each["weight"] for each in affinity if matches_term(each.get("preference") or {}, room.node))
    disliked = len(untolerated(spec, (room.node.get("spec") or {}).get("taints") or [], "PreferNoSchedule"))
    free = 0
    for key in ("cpu", "memory"):
        total = room.total.get(key, 0)
        if total:
            free += (total - room.used.get(key, 0) - wanted.get(key, 0)) * 100 // total
    return liked, -disliked, free


def explanation(reasons: Mapping[str, int], nodes: int) -> str:
    """Return kube-scheduler's sentence about a pod that fits nowhere."""
    if not nodes:
        return "no nodes available to schedule pods"
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return (
        f"0/{nodes} nodes are available: {told}. "
        f"preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    )
