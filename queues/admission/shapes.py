"""What a class asks for, worked out once for all its jobs: options of flavors, needs in units, patterns of tasks."""

from dataclasses import dataclass, replace
from itertools import islice, product

from queues.admission.world import Ask, Group, JobShape, Labels, Near, Topology

MOST_OPTIONS = 64

Needs = tuple[tuple[int, int], ...]
"""Units by flavor id."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one task needs of a node."""

    flavor: int
    units: int
    cpu: int
    memory: int
    labels: Labels


class Option:
    """One choice of a flavor for each group: what it takes of quota and of nodes."""

    __slots__ = ("evenly", "flavors", "groups", "needs", "patterns", "tasks", "together", "topologies", "units")

    def __init__(self, ask: Ask, flavors: tuple[int, ...], tasks: tuple[int, ...]) -> None:
        """Sum the needs of ``tasks`` tasks in each group on its flavor."""
        groups = ask.groups
        self.flavors = flavors
        self.groups = groups
        self.together = ask.topology
        self.topologies = tuple(group.topology for group in groups)
        wish = self.topologies[0]
        self.evenly = ask.shape is JobShape.INDEPENDENT and wish is not None and wish.near is Near.SPREAD
        self.tasks = tasks
        self.patterns = tuple(
            Pattern(flavor, group.units, group.cpu, group.memory, group.labels)
            for group, flavor in zip(groups, flavors, strict=True)
        )
        units: dict[int, int] = {}
        for pattern, count in zip(self.patterns, tasks, strict=True):
            units[pattern.flavor] = units.get(pattern.flavor, 0) + pattern.units * count
        self.needs: Needs = tuple(sorted(units.items()))
        self.units = sum(units.values())


class Shape:
    """An ask with its options, in the order of the wish. Of an independent job it stands for one task."""

    __slots__ = ("ask", "firm", "flavors", "independent", "options", "units")

    def __init__(self, ask: Ask) -> None:
        """Spell out the options; the product of long wishes of many groups is cut after the first 64."""
        self.ask = ask
        self.independent = ask.shape is JobShape.INDEPENDENT
        self.firm = not (ask.borrow and ask.preemptible)
        tasks = (1,) if self.independent else tuple(group.tasks for group in ask.groups)
        choices = islice(product(*(group.flavors for group in ask.groups)), MOST_OPTIONS)
        self.options = tuple(Option(ask, flavors, tasks) for flavors in choices)
        self.units = self.options[0].units
        self.flavors = tuple(sorted({flavor for option in self.options for flavor, _ in option.needs}))


def bound_groups(ask: Ask) -> tuple[Group, ...]:
    """Return the groups of an ask, each with the wish that binds its tasks: its own, or that of the job.

    Of two wishes what is required counts, of two that require the narrower domain.
    """
    whole = ask.topology
    if whole is None:
        return ask.groups

    def weight(wish: Topology) -> tuple[bool, int]:
        required = wish.near is Near.REQUIRED
        return (required, wish.level if required else 0)

    return tuple(
        group
        if group.topology is not None and weight(group.topology) >= weight(whole)
        else replace(group, topology=whole)
        for group in ask.groups
    )


class Shapes:
    """Every ask of a world, each worked out once however many classes share it."""

    def __init__(self) -> None:
        """Start with none."""
        self._by_object: dict[int, tuple[Ask, Shape]] = {}
        self._by_value: dict[Ask, Shape] = {}

    def of(self, ask: Ask) -> Shape:
        """Return the shape of an ask; equal asks give the same shape."""
        known = self._by_object.get(id(ask))
        if known is not None:
            return known[1]
        shape = self._by_value.get(ask)
        if shape is None:
            shape = self._by_value[ask] = Shape(ask)
        self._by_object[id(ask)] = (ask, shape)  # which keeps the ask alive, and its id its own
        return shape
