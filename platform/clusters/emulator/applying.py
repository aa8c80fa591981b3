"""Server-side apply: who manages which field, conflicts, and what an apply takes away. Pure."""

from http import HTTPStatus
from typing import Any

from clusters.emulator.errors import ApiError, about
from clusters.emulator.kinds import Kind
from clusters.emulator.patches import MERGE_KEYS, strategic
from clusters.emulator.store import Object

_IDENTITY = {"apiVersion", "kind"}
_IDENTITY_META = {"name", "namespace", "resourceVersion", "uid", "managedFields", "creationTimestamp", "generation"}


def signed(body: Object, wanted: Object, manager: str, now: str) -> Object:
    """Return the object with the manager's entry for the fields that it wants."""
    return _with_entry(body, manager, _fields(wanted), now)


def merged(kind: Kind, old: Object, wanted: Object, manager: str, *, force: bool, now: str) -> Object:
    """Return what the object becomes; raise 409 naming each other manager whose field would change."""
    mine = _fields(wanted)
    conflicts = _conflicts(old, wanted, manager)
    if conflicts and not force:
        raise _refusal(kind, old["metadata"]["name"], conflicts)
    without = _dropped(old, _entry(old, manager), mine)
    result: Object = strategic(without, {key: value for key, value in wanted.items() if key not in _IDENTITY})
    if force:
        result = _taken_over(result, manager, mine)
    return _with_entry(result, manager, mine, now)


def _fields(value: Object) -> Object:
    """Return the tree of fields that an applied object sets, in Kubernetes' notation (``f:`` name, ``k:`` list key)."""
    tree = {}
    for key, inner in value.items():
        if key in _IDENTITY:
            continue
        if key == "metadata":
            inner_tree = _tree({name: each for name, each in inner.items() if name not in _IDENTITY_META})
            if inner_tree:
                tree["f:metadata"] = inner_tree
        else:
            tree[f"f:{key}"] = _tree(inner, key)
    return tree


def _tree(value: Any, name: str = "") -> Object:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return {f"f:{key}": _tree(inner, key) for key, inner in value.items()}
    key = MERGE_KEYS.get(name)
    if isinstance(value, list) and key and all(isinstance(each, dict) and key in each for each in value):
        return {f'k:{{"{key}":"{each[key]}"}}': _tree(each) for each in value}
    return {}


def _entry(body: Object, manager: str) -> Object:
    for each in body["metadata"].get("managedFields") or ():
        if each["manager"] == manager and each["operation"] == "Apply":
            found: Object = each["fieldsV1"]
            return found
    return {}


def _with_entry(body: Object, manager: str, fields: Object, now: str) -> Object:
    others = [
        each
        for each in body["metadata"].get("managedFields") or ()
        if not (each["manager"] == manager and each["operation"] == "Apply")
    ]
    same = _entry(body, manager) == fields
    known = next((each for each in body["metadata"].get("managedFields") or () if each["manager"] == manager), None)
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": body["apiVersion"],
        "time": known["time"] if known and same else now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**body, "metadata": {**body["metadata"], "managedFields": [*others, entry]}}


def _conflicts(old: Object, wanted: Object, manager: str) -> list[tuple[str, str]]:
    """Return (manager, field) for each leaf of another manager that would get another value."""
    found = []
    for each in old["metadata"].get("managedFields") or ():
        if each["manager"] != manager:
            found += [(each["manager"], path) for path in _clashes(each["fieldsV1"], old, wanted, "")]
    return found


def _clashes(tree: Object, old: Any, wanted: Any, path: str) -> list[str]:  # noqa: ANN401 - any JSON value
    found: list[str] = []
    for step, inner in tree.items():
        before, now = _child(old, step), _child(wanted, step)
        here = f"{path}.{step[2:]}" if step.startswith("f:") else f"{path}[{step[3:-1]}]"
        if now is None or before == now:
            continue
        if inner and isinstance(now, dict | list):
            found += _clashes(inner, before, now, here)
        else:
            found.append(here)
    return found


def _child(value: Any, step: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return what a step of a field tree leads to, or None."""
    if step.startswith("f:"):
        return value.get(step[2:]) if isinstance(value, dict) else None
    key, _, wanted = step[3:-1].partition(":")
    rows = value if isinstance(value, list) else []
    return next((each for each in rows if str(each.get(key.strip('"'))) == wanted.strip('"')), None)


def _dropped(body: Any, before: Object, now: Object) -> Any:  # noqa: ANN401 - any JSON value
    """Return the object without the leaves that the manager applied before and does not any more."""
    result = body
    for step, inner in before.items():
        child = _child(result, step)
        if child is None:
            continue
        if step not in now:
            result = _replaced(result, step, None)
        elif inner:
            result = _replaced(result, step, _dropped(child, inner, now[step]))
    return result


def _replaced(value: Any, step: str, child: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        rest = {key: inner for key, inner in value.items() if key != step[2:]}
        return rest if child is None else {**value, step[2:]: child}
    old = _child(value, step)
    kept = [child if each is old else each for each in value]
    return [each for each in kept if each is not None]


def _taken_over(body: Object, manager: str, mine: Object) -> Object:
    """Return the object after a forced apply: the fields are the manager's alone."""
    entries = []
    for each in body["metadata"].get("managedFields") or ():
        left = each["fieldsV1"] if each["manager"] == manager else _minus(each["fieldsV1"], mine)
        if left:
            entries.append({**each, "fieldsV1": left})
    return {**body, "metadata": {**body["metadata"], "managedFields": entries}}


def _minus(tree: Object, other: Object) -> Object:
    left = {}
    for step, inner in tree.items():
        if step not in other:
            left[step] = inner
        elif inner and (rest := _minus(inner, other[step])):
            left[step] = rest
    return left


def _refusal(kind: Kind, name: str, conflicts: list[tuple[str, str]]) -> ApiError:
    managers = sorted({manager for manager, _ in conflicts})
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": path}
        for manager, path in conflicts
    ]
    told = ", ".join(f'"{manager}"' for manager in managers)
    plural = "s" if len(conflicts) > 1 else ""
    message = f"Apply failed with {len(conflicts)} conflict{plural}: conflict{plural} with {told}: " + ", ".join(
        path for _, path in conflicts
    )
    return ApiError(HTTPStatus.CONFLICT, "Conflict", message, details={**about(kind, name), "causes": causes})
