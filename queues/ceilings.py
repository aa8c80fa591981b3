"""What teams could ever have: the quota tree with everybody idle, read in one statement when it is asked for."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from queues.admission import quota, world
from queues.spec import Ceilings, FlavorChoice, Spec
from tenants.errors import Notice
from tenants.models import Team


class StoredCeilings:
    """The quota tree on what is installed of each flavor."""

    def __init__(self, flavors: Iterable[FlavorChoice]) -> None:
        """Remember what is installed; the tree is read later."""
        self._flavors = tuple(flavors)

    def most(self, team: int, flavor: int) -> int:
        """Return the units that a team could have with everybody else idle; 0 also where either is not known."""
        line, place = self._lines.get(flavor), self._tree.number.get(team)
        return 0 if line is None or place is None else line.most(place)

    @cached_property
    def _world(self) -> world.World:
        columns = ("id", "name", "parent_id", "quotas__flavor_id")
        limits = ("quotas__guaranteed", "quotas__borrow_limit", "quotas__lend_limit")
        rows = Team.objects.order_by("id", "quotas__flavor_id").values_list(*columns, *limits)
        quotas: dict[int, list[world.Quota]] = defaultdict(list)
        teams = {}
        for team, name, parent, flavor, guaranteed, borrow, lend in rows:
            teams[team] = (name, parent)
            if flavor is not None:
                quotas[team].append(
                    world.Quota(flavor=flavor, guaranteed=guaranteed, borrow_limit=borrow, lend_limit=lend)
                )
        return world.World(
            now=0,
            flavors=tuple(world.Flavor(id=flavor.id, name=flavor.name) for flavor in self._flavors),
            teams=tuple(
                world.Team(id=team, name=name, parent=parent, quotas=tuple(quotas[team]))
                for team, (name, parent) in teams.items()
            ),
            # One machine that stands for all: what could ever be had depends on the sum only.
            nodes=tuple(
                world.Node(id=flavor.id, name="", cluster=0, flavor=flavor.id, units=flavor.installed, cpu=0, memory=0)
                for flavor in self._flavors
            ),
        )

    @cached_property
    def _tree(self) -> quota.Tree:
        return quota.Tree(self._world)

    @cached_property
    def _lines(self) -> dict[int, quota.Line]:
        return quota.lines(self._world, self._tree)


def warnings(spec: Spec, ceilings: Ceilings) -> tuple[Notice, ...]:
    """Return what is permanently in the way of a job, which is accepted all the same."""
    found = []
    for group in spec.groups:
        largest = max(flavor.largest for flavor in group.flavors)
        if group.units > largest:
            kinds = " or ".join(flavor.name for flavor in group.flavors)
            what = f"a task needs {group.units} {kinds} on one node; the largest node has {largest}"
            found.append(Notice(code="EXCEEDS_NODE", detail=f"This job can never start: {what}."))
    needs = spec.groups[0].units if spec.shape is world.JobShape.INDEPENDENT else spec.units
    flavors = {flavor.id: flavor.name for group in spec.groups for flavor in group.flavors}
    if not found and len(flavors) == 1:
        ((flavor, kind),) = flavors.items()
        most = ceilings.most(spec.team.id, flavor)
        if needs > most:
            what = f"it needs {needs} {kind} at once; {spec.team.name} can have at most {most}"
            found.append(Notice(code="EXCEEDS_MAX", detail=f"This job can never start: {what}."))
    return tuple(found)
