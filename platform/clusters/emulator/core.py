"""What every part of the emulator shares."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from clusters.emulator.agenda import Agenda
from clusters.emulator.clock import stamp
from clusters.emulator.store import Object, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The objects, the agenda and the clock."""

    store: Store
    agenda: Agenda
    clock: Callable[[], datetime]

    def stamp(self) -> str:
        """Return the time as objects carry it."""
        return stamp(self.clock())


def condition(body: Object, kind: str) -> Object | None:
    """Return the condition of that type from an object's status."""
    for each in (body.get("status") or {}).get("conditions") or []:
        if each.get("type") == kind:
            found: Object = each
            return found
    return None


def holds(body: Object, kind: str) -> bool:
    """Tell whether the condition of that type is True."""
    found = condition(body, kind)
    return found is not None and found.get("status") == "True"


def with_condition(status: Object, new: Object) -> Object:
    """Return the status with one condition set in its place."""
    conditions = list(status.get("conditions") or [])
    for index, each in enumerate(conditions):
        if each.get("type") == new["type"]:
            if each.get("status") == new["status"] and "lastTransitionTime" in each:
                new = {**new, "lastTransitionTime": each["lastTransitionTime"]}
            conditions[index] = new
            break
    else:
        conditions.append(new)
    return {**status, "conditions": conditions}


def finished(pod: Object) -> bool:
    """Tell whether a pod has ended."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def leaving(body: Object) -> bool:
    """Tell whether an object is being deleted."""
    return "deletionTimestamp" in body["metadata"]


def controller(body: Object, kind: str) -> Object | None:
    """Return the owner reference of the controller, when it is of that kind."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == kind:
            found: Object = owner
            return found
    return None
