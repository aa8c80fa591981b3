"""Specs as YAML for people: written in the order in which one thinks of them, and errors placed at their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from queues.spec.fields import escape
from tenants.errors import Unreadable
from tenants.rest.parsers import refuse_tricks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ORDER = {
    key: place
    for place, key in enumerate(
        (
            *("apiVersion", "kind", "metadata", "spec", "name", "team", "queue", "external_id", "labels"),
            *("shape", "tasks", "gpus", "count", "type", "resources", "cpu", "memory", "shm", "groups"),
            *(
                "run",
                "image",
                "command",
                "args",
                "env",
                "secrets",
                "secret_env",
                "pull_secrets",
                "volumes",
                "path",
                "claim",
            ),
            *("size", "pre_stop", "service_account", "time_limit", "priority", "borrow", "grace"),
            *("retries", "node_labels", "annotations"),
        )
    )
}


def dump(spec: Mapping[str, Any]) -> str:
    """Return a spec as YAML; the database does not keep the order of keys, so it is made here."""
    return yaml.safe_dump(_in_order(dict(spec), free=False), sort_keys=False, allow_unicode=True, width=100)


def _in_order(value: Any, *, free: bool) -> Any:  # noqa: ANN401  any JSON value
    if isinstance(value, list):
        return [_in_order(each, free=free) for each in value]
    if not isinstance(value, dict) or free:
        return value
    keys = sorted(value, key=lambda key: (ORDER.get(key, len(ORDER)), key))
    return {
        key: _in_order(value[key], free=key in {"env", "secret_env", "labels", "node_labels", "annotations"})
        for key in keys
    }


def lines(text: str) -> dict[str, int]:
    """Return the line, from 1, of every pointer in a text; nothing where it is no YAML that is taken.

    It is looked at first, since aliases that are followed have no end.
    """
    try:
        refuse_tricks(yaml.parse(text, Loader=yaml.CSafeLoader))
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, Unreadable, ValueError):
        return {}
    return dict(_walk(root, "")) if root is not None else {}


def line_of(pointer: str, known: dict[str, int]) -> int | None:
    """Return the line of a field; one that is missing stands where its parent does, one without a parent nowhere."""
    while pointer and pointer not in known:
        pointer = pointer.rpartition("/")[0]
    return known[pointer] if pointer else None


def _walk(node: yaml.Node, pointer: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = f"{pointer}/{escape(key.value)}"
            yield below, key.start_mark.line + 1
            yield from _walk(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            below = f"{pointer}/{place}"
            yield below, value.start_mark.line + 1
            yield from _walk(value, below)
