"""Where something lies in a JSON object: read it, set it, take it out, say it as a pointer."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Json: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str, ...]


def at(manifest: object, path: Path) -> Any:  # noqa: ANN401  any JSON value
    """Return what lies at a path, None where it ends before."""
    for key in path:
        if not isinstance(manifest, Mapping):
            return None
        manifest = manifest.get(key)
    return manifest


def put(manifest: dict[str, Any], path: Path, value: object) -> None:
    """Set what lies at a path, making the mappings on the way, also where there is something else."""
    for key in path[:-1]:
        inner = manifest.get(key)
        if not isinstance(inner, dict):
            inner = manifest[key] = {}
        manifest = inner
    manifest[path[-1]] = value


def drop(manifest: Json, path: Path) -> None:
    """Take out what lies at a path, if anything does."""
    above = at(manifest, path[:-1])
    if isinstance(above, dict):
        above.pop(path[-1], None)


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def differences(one: object, other: object, at_path: Path = ()) -> Iterator[str]:
    """Yield a pointer to each field that only one of two objects has, or that differs in them."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*one, *other)):
            if key in one and key in other:
                yield from differences(one[key], other[key], (*at_path, str(key)))
            else:
                yield pointer((*at_path, str(key)))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, (*at_path, str(place)))
    elif one != other:
        yield pointer(at_path)


def mapping(found: object) -> Json:
    """Return a mapping, an empty one for all else."""
    return found if isinstance(found, Mapping) else {}
