"""How close together a job wants its tasks, as its launch tells it."""

from typing import Any

from clusters.port import Closeness, Near
from queues.launches import launches_of
from queues.models import Node
from tests.queues.lab import Lab

RACK = "tidegate.io/rack"


def wishes(lab: Lab, *racks: str, **body: Any) -> list[tuple[Closeness, ...]]:  # noqa: ANN401  fields of a spec
    """Start a job on nodes in these racks, and return the wishes of each of its groups."""
    nodes = lab.nodes[: len(racks)]
    for node, rack in zip(nodes, racks, strict=True):
        Node.objects.filter(id=node.id).update(labels={**node.labels, RACK: rack})
    wave = lab.start(lab.submit(shape="gang", **body), *nodes)
    return [group.closeness for group in launches_of([wave])[wave.id].groups]


def test_a_required_level_names_the_label_and_the_domain_of_the_plan(lab: Lab) -> None:
    found = wishes(lab, "r7", "r7", tasks=2, topology={"required": "rack"})

    assert found == [(Closeness(near=Near.REQUIRED, key=RACK, domains=("r7",)),)]


def test_a_spread_names_all_domains_and_its_skew(lab: Lab) -> None:
    found = wishes(lab, "r7", "r8", tasks=2, topology={"spread": "rack", "max_skew": 1})

    assert found == [(Closeness(near=Near.SPREAD, key=RACK, domains=("r7", "r8"), max_skew=1),)]


def test_nodes_are_told_by_name(lab: Lab) -> None:
    found = wishes(lab, "r7", "r8", tasks=2, topology={"spread": "node"})

    assert found == [(Closeness(near=Near.SPREAD, domains=tuple(sorted(node.name for node in lab.nodes[:2]))),)]


def test_what_a_job_with_groups_wants_counts_the_tasks_of_all(lab: Lab) -> None:
    groups = [{"name": "a", "tasks": 1}, {"name": "b", "tasks": 1, "topology": {"preferred": "node"}}]

    found = wishes(lab, "r7", "r7", groups=groups, topology={"required": "rack"})

    whole = Closeness(near=Near.REQUIRED, key=RACK, domains=("r7",), whole=True)
    assert found[0] == (whole,)
    assert [wish.near for wish in found[1]] == [Near.PREFERRED, Near.REQUIRED]


def test_a_job_without_a_wish_has_none(lab: Lab) -> None:
    assert wishes(lab, "r7", tasks=1) == [()]
