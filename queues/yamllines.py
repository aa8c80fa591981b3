"""Where in a YAML text a field stands: JSON pointers to line numbers, so that an error can be shown at its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from queues.spec.fields import escape

if TYPE_CHECKING:
    from collections.abc import Iterator


def lines(text: str) -> dict[str, int]:
    """Return the line, from 1, of every pointer in a text that has been read; nothing where it is no YAML."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return {}
    return {"": 1} | (dict(_walk(root, "")) if root is not None else {})


def line_of(pointer: str, known: dict[str, int]) -> int:
    """Return the line of a field; one that is missing stands where its parent does."""
    while pointer not in known:
        pointer = pointer.rpartition("/")[0]
        if not pointer:
            return 1
    return known[pointer]


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
