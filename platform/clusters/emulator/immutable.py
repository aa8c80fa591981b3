"""What may change in an object once it exists."""

from clusters.emulator.errors import invalid
from clusters.emulator.kinds import JOBS, PODS, PRIORITY_CLASSES, Kind
from clusters.emulator.store import Object

_POD_RULE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_FREE_IN_PODS = ("schedulingGates", "tolerations", "activeDeadlineSeconds", "containers", "initContainers")
_FREE_IN_JOBS = (
    "parallelism",
    "suspend",
    "backoffLimit",
    "maxFailedIndexes",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "completions",
    "podReplacementPolicy",
    "template",
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def check(kind: Kind, old: Object, new: Object) -> None:
    """Raise 422 when a field changed that may not."""
    causes: list[tuple[str, str]] = []
    if kind is PODS:
        causes = _pod(old["spec"], new["spec"])
    elif kind is JOBS:
        causes = _job(old, new)
    elif kind is PRIORITY_CLASSES and old["value"] != new.get("value"):
        causes = [("value", "Forbidden: may not be changed in an update.")]
    if causes:
        raise invalid(kind, old["metadata"]["name"], causes)


def _pod(old: Object, new: Object) -> list[tuple[str, str]]:
    if old == new:
        return []
    gates_before = [gate["name"] for gate in old.get("schedulingGates") or []]
    gates_now = [gate["name"] for gate in new.get("schedulingGates") or []]
    if any(gate not in gates_before for gate in gates_now):
        return [("spec.schedulingGates", "Forbidden: only deletion is allowed")]
    free = set(_FREE_IN_PODS)
    if gates_before:
        free |= {"nodeSelector", "affinity"}
    causes = [("spec", _POD_RULE)] if _rest(old, free) != _rest(new, free) or _containers_differ(old, new) else []
    if any(toleration not in (new.get("tolerations") or []) for toleration in old.get("tolerations") or []):
        causes.append(
            ("spec.tolerations", "Forbidden: existing toleration can not be modified except its tolerationSeconds")
        )
    if gates_before:
        causes += _narrowing(old, new)
    return causes


def _rest(spec: Object, free: set[str]) -> Object:
    return {key: value for key, value in spec.items() if key not in free}


def _containers_differ(old: Object, new: Object) -> bool:
    """Tell whether containers differ in more than their image."""
    for part in ("containers", "initContainers"):
        before = [_rest(each, {"image", "imagePullPolicy"}) for each in old.get(part) or []]
        if before != [_rest(each, {"image", "imagePullPolicy"}) for each in new.get(part) or []]:
            return True
    return False


def _narrowing(old: Object, new: Object) -> list[tuple[str, str]]:
    """Complain when a gated pod may go to a node that it could not go to before."""
    before, now = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
    if any(now.get(key) != value for key, value in before.items()):
        return [("spec.nodeSelector", "Invalid value: only additions to spec.nodeSelector are allowed")]
    old_affinity, new_affinity = old.get("affinity") or {}, new.get("affinity") or {}
    if _rest(old_affinity, {"nodeAffinity"}) != _rest(new_affinity, {"nodeAffinity"}):
        return [("spec", _POD_RULE)]
    terms = _terms(old_affinity)
    if not terms:
        return []
    narrowed = _terms(new_affinity)
    if len(narrowed) != len(terms) or not all(map(_extends, narrowed, terms)):
        field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
        return [(field, "Invalid value: only additions are allowed to a NodeSelectorTerm")]
    return []


def _terms(affinity: Object) -> list[Object]:
    found: list[Object] = ((affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return found


def _extends(new: Object, old: Object) -> bool:
    """Tell whether a term asks all that it asked before, in the same order, and perhaps more."""
    for part in ("matchExpressions", "matchFields"):
        before = old.get(part) or []
        if (new.get(part) or [])[: len(before)] != before:
            return False
    return True


def _job(old: Object, new: Object) -> list[tuple[str, str]]:
    before, now = old["spec"], new["spec"]
    causes = [
        (f"spec.{key}", "Invalid value: field is immutable")
        for key in sorted(before.keys() | now.keys())
        if key not in _FREE_IN_JOBS and before.get(key) != now.get(key)
    ]
    elastic = before.get("completionMode") == "Indexed" and now.get("completions") == now.get("parallelism")
    if before.get("completions") != now.get("completions") and not elastic:
        causes.append(("spec.completions", "Invalid value: field is immutable"))
    if before["template"] != now["template"] and not _may_redirect(old, now):
        causes.append(("spec.template", "Invalid value: field is immutable"))
    return causes


def _may_redirect(old: Object, now: Object) -> bool:
    """Tell whether the template changed only in where its pods go, while the Job was suspended and never started."""
    before = old["spec"]
    if not before.get("suspend") or (old.get("status") or {}).get("startTime"):
        return False
    directives = {"nodeSelector", "affinity", "tolerations", "schedulingGates"}
    return _rest(before["template"]["spec"], directives) == _rest(now["template"]["spec"], directives)
