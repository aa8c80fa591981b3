"""The map: one row a machine, one cell a GPU or a task, as rows for a real table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from queues.queries.rows.machines import Cell, NodeRow

MOST_NODES = 64
PER_LINE = 12
MODES = ("team", "user", "state")
TONES = {"pending": "starting", "leaving": "leaving", "running": "running"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """A cell of the table over ``span`` GPUs: its class, a short word in it, and where it leads."""

    span: int
    kind: str
    hue: str = ""
    short: str = ""
    text: str = ""
    cell: Cell | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRow:
    """A machine and its squares; ``pad`` is what it is narrower than the widest."""

    node: NodeRow
    squares: tuple[Square, ...]
    pad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The machines of one cluster, GPU type and rack."""

    title: str
    rows: tuple[MapRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """All places; on a crowded map (``dense``) each machine is one square, and ``crowd`` has lines of those."""

    places: tuple[Place, ...]
    crowd: tuple[tuple[str, tuple[MapRow, ...]], ...]
    width: int
    dense: bool
    mode: str
    only_mine: bool
    nodes: int


def gpu_map(nodes: Iterable[NodeRow], palette: Mapping[str, str], *, mode: str, only_mine: bool) -> Map:
    """Return the map, coloured by team, user or state."""
    mode = mode if mode in MODES else MODES[0]
    shown = sorted((node for node in nodes if node.units), key=lambda node: node.flavor or "")
    dense = len(shown) > MOST_NODES
    width = max((node.units for node in shown), default=0)
    places = []
    for title, group in groupby(shown, key=place):
        rows = tuple(
            MapRow(
                node=node,
                squares=summary(node) if dense else squares(node, palette, mode, only_mine=only_mine),
                pad=width - node.units,
            )
            for node in group
        )
        places.append(Place(title=title, rows=rows))
    crowd = tuple(
        (where.title if start == 0 else "", where.rows[start : start + PER_LINE])
        for where in places
        for start in range(0, len(where.rows), PER_LINE)
    )
    return Map(
        places=tuple(places), crowd=crowd, width=width, dense=dense, mode=mode, only_mine=only_mine, nodes=len(shown)
    )


def place(node: NodeRow) -> str:
    """Return where a machine stands, in words."""
    return " · ".join([node.flavor or "no GPU type", *node.place])


def squares(node: NodeRow, palette: Mapping[str, str], mode: str, *, only_mine: bool) -> tuple[Square, ...]:
    """Return the squares of a machine: tasks first, then what others use, then free ones."""
    found = [square(cell, palette, mode, only_mine=only_mine) for cell in node.cells]
    if node.outside:
        found.append(Square(span=node.outside, kind="outside", short="··", text="used outside Tidegate"))
    left = node.units - node.used - node.outside
    kind, text = ("free", "free") if node.usable else ("gone", node.why or node.state)
    return (*found, *(Square(span=1, kind=kind, text=text) for _ in range(max(0, left))))


def square(cell: Cell, palette: Mapping[str, str], mode: str, *, only_mine: bool) -> Square:
    """Return one task's square."""
    if not cell.team:
        return Square(span=cell.units, kind="other", short="··", text="another team", cell=cell)
    if mode == "user":
        hue, short = f"c{crc32(cell.owner.encode()) % 8}", cell.owner
    elif mode == "state":
        hue, short = "s-" + TONES.get(cell.state, "running"), "borrowed" if cell.borrowed else cell.state
    else:
        hue, short = palette.get(cell.team, ""), cell.team
    dim = " dim" if only_mine and not cell.mine else ""
    kind = "task" + (" borrowed" if cell.borrowed else "") + (" leaving" if cell.state == "leaving" else "") + dim
    return Square(span=cell.units, kind=kind, hue=hue, short=short, text=cell.team, cell=cell)


def summary(node: NodeRow) -> tuple[Square, ...]:
    """Return the one square of a machine on a crowded map."""
    full = "gone" if not node.usable else "free" if node.free == node.units else "some" if node.free else "full"
    return (Square(span=1, kind=f"sum {full}", short=f"{node.used}/{node.units}", text=node.why or node.state),)
