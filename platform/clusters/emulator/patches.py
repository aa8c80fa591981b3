"""Patches: JSON merge, strategic merge, JSON patch. Pure: the patched object stays as it was."""

from typing import Any

from clusters.emulator.errors import bad_request, invalid
from clusters.emulator.kinds import Kind
from clusters.emulator.store import Object

# By which key strategic merge finds the same element again; lists that are not here are replaced as a whole.
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}
_SETS = {"finalizers"}


def merge(target: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Any, name: str = "") -> Any:  # noqa: ANN401 - any JSON value
    """Apply a strategic merge patch, with the list keys that our kinds have."""
    if isinstance(patch, list):
        return _strategic_list(target if isinstance(target, list) else [], patch, name)
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return None
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith(("$setElementOrder/", "$retainKeys")):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            listed = key.partition("/")[2]
            result[listed] = [each for each in result.get(listed) or [] if each not in value]
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(result.get(key), value, key)
    return result


def _strategic_list(target: list[Any], patch: list[Any], name: str) -> list[Any]:
    """Merge lists by their key, union sets, replace the rest."""
    if name in _SETS:
        return [*target, *(each for each in patch if each not in target)]
    key = MERGE_KEYS.get(name)
    if key is None:
        return patch
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if each.get("$patch") != "replace"]
    if key == "containerPort" and any("containerPort" not in each for each in (*target, *patch)):
        key = "port"
    result = list(target)
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise bad_request(f"map: {each} does not contain declared merge key: {key}")
        place = next((index for index, known in enumerate(result) if known.get(key) == each[key]), None)
        if each.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(each)
        else:
            result[place] = strategic(result[place], each)
    return result


def json_patch(kind: Kind, name: str, target: Object, steps: Any) -> Object:  # noqa: ANN401 - what the client sent
    """Apply a JSON patch (RFC 6902); raise 400 for a malformed one and 422 for one that does not apply."""
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    result: Any = target
    for step in steps:
        try:
            result = _apply(result, step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise invalid(
                kind, name, [("patch", f"the server rejected our request: {step.get('op')}: {error}")]
            ) from error
    if not isinstance(result, dict):
        raise bad_request("the patched object is no object")
    return result


def _apply(document: Any, step: Object) -> Any:  # noqa: ANN401 - any JSON value
    path = _split(step["path"])
    match step["op"]:
        case "add":
            return _set(document, path, step["value"], insert=True)
        case "replace":
            _get(document, path)
            return _set(document, path, step["value"], insert=False)
        case "remove":
            _get(document, path)
            return _remove(document, path)
        case "copy":
            return _set(document, path, _get(document, _split(step["from"])), insert=True)
        case "move":
            source = _split(step["from"])
            value = _get(document, source)
            return _set(_remove(document, source), path, value, insert=True)
        case "test":
            if _get(document, path) != step["value"]:
                raise ValueError(f"testing value {step['path']} failed")
            return document
        case _:
            raise ValueError("unexpected kind of operation")


def _split(pointer: object) -> list[str]:
    if not isinstance(pointer, str):
        raise TypeError(f"{pointer} is no JSON pointer")
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def _set(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:  # noqa: ANN401 - any JSON value
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        copy = list(document)
        if rest:
            copy[int(step)] = _set(copy[int(step)], rest, value, insert=insert)
        elif not insert:
            copy[int(step)] = value
        else:
            place = len(copy) if step == "-" else int(step)
            if not 0 <= place <= len(copy):
                raise IndexError(f"index {step} is out of bounds")
            copy.insert(place, value)
        return copy
    if rest and step not in document:
        raise KeyError(step)
    return {**document, step: _set(document[step], rest, value, insert=insert) if rest else value}


def _remove(document: Any, path: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        copy = list(document)
        if rest:
            copy[int(step)] = _remove(copy[int(step)], rest)
        else:
            del copy[int(step)]
        return copy
    if rest:
        return {**document, step: _remove(document[step], rest)}
    return {key: inner for key, inner in document.items() if key != step}
