"""GPU types whose units are devices of a class: counted, claimed for our pods, fenced, and given back."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from clusters.classes import PREFIX
from clusters.port import DevicesSeen, GroupSpec, Inventory, Launch
from tests.clusters.contract.ground import Ground, ref
from tests.clusters.waiting import until

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


class Rack:
    """A device class of a test's own, and nodes that have devices of it."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.name = f"gpu.{ground.key}.example.com"
        self.resource = PREFIX + self.name
        self.slices: list[str] = []
        selector = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == \"{ground.key}\""
        self.create("deviceclasses", {"name": self.name}, {"selectors": [{"cel": {"expression": selector}}]})

    def create(self, plural: str, metadata: Mapping[str, object], spec: Mapping[str, object]) -> None:
        kind = {"deviceclasses": "DeviceClass", "resourceslices": "ResourceSlice", "resourceclaims": "ResourceClaim"}
        space = f"/namespaces/{self.ground.namespace}" if plural == "resourceclaims" else ""
        body = {"apiVersion": API, "kind": kind[plural], "metadata": metadata, "spec": spec}
        self.ground.send("create", f"/apis/{API}{space}/{plural}", body=body)

    def node(self, *devices: Mapping[str, object]) -> str:
        """Add a node with these devices."""
        node = self.ground.node(gpus=0)
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)}
        self.create("resourceslices", {"name": node}, spec)
        self.slices.append(node)
        return node

    def device(self, name: str, **more: object) -> dict[str, object]:
        return {"name": name, "attributes": {"model": {"string": self.ground.key}}, **more}

    def cards(self, count: int) -> tuple[dict[str, object], ...]:
        return tuple(self.device(f"gpu-{number}") for number in range(count))

    def group(self, *nodes: str, units: int = 1, **steer: str) -> GroupSpec:
        group = self.ground.group(*nodes, units=units, steer=steer or {"forever": "1"})
        return replace(group, resource=self.resource)

    def claims(self) -> list[str]:
        return self._names("resourceclaims")

    def templates(self) -> list[str]:
        return self._names("resourceclaimtemplates")

    def _names(self, plural: str) -> list[str]:
        found = self.ground.send("list", f"/apis/{API}/namespaces/{self.ground.namespace}/{plural}")["items"]
        return [each["metadata"]["name"] for each in found]

    def seen(self) -> Inventory:
        return self.ground.cluster.inventory()

    def leave(self) -> None:
        for name in self.slices:
            self.ground.send("delete", f"/apis/{API}/resourceslices/{name}")
        self.ground.send("delete", f"/apis/{API}/deviceclasses/{self.name}")


@pytest.fixture
def rack(ground: Ground) -> Iterator[Rack]:
    rack = Rack(ground)
    yield rack
    rack.leave()


def alone(rack: Rack, launch: Launch) -> Launch:
    """Launch a wave of one task and wait until it has its node."""
    rack.ground.cluster.launch(launch)
    rack.ground.placed(launch)
    return launch


def stopped(rack: Rack, launch: Launch) -> None:
    """Stop a wave and wait until nothing of it is left."""
    rack.ground.cluster.stop(ref(launch), grace_seconds=0)
    until(lambda: not rack.ground.pods(launch) and not rack.claims() and not rack.templates())


def test_devices_that_a_class_selects_and_nothing_taints_are_offered(rack: Rack) -> None:
    other = {"name": "other", "attributes": {"model": {"string": "another"}}}
    sick = rack.device("sick", taints=[{"key": "example.com/sick", "effect": "NoSchedule"}])

    node = rack.node(*rack.cards(2), other, sick)

    seen = rack.seen()
    assert seen.offered[node] == {rack.resource: 2}
    assert seen.devices[node] == {DRIVER: 4}


def test_a_card_that_appears_or_goes_is_told_by_the_watch(rack: Rack) -> None:
    position = rack.seen().position

    node = rack.node(*rack.cards(2))
    path = f"/apis/{API}/resourceslices/{node}"
    less = rack.ground.send("get", path)
    less["spec"]["devices"] = less["spec"]["devices"][:1]
    rack.ground.send("replace", path, body=less)
    rack.ground.send("delete", path)
    rack.slices.remove(node)

    offered: list[int] = []
    for change in rack.ground.cluster.watch(position, seconds=60):
        if isinstance(change.seen, DevicesSeen):
            offered.append(change.seen.offered.get(node, {}).get(rack.resource, 0))
            if offered[-1] == 0:
                break
    assert offered == [2, 1, 0]


def test_each_task_gets_its_devices_by_a_claim_and_gives_them_back(rack: Rack) -> None:
    one, two = rack.node(*rack.cards(4)), rack.node(*rack.cards(4))
    launch = rack.ground.launch(rack.group(one, two, units=3))

    rack.ground.start(launch)
    pods = rack.ground.running(launch)

    seen = rack.seen()
    assert sorted(pod.node or "" for pod in pods) == sorted((one, two))
    assert [dict(pod.counted) for pod in pods] == [{rack.resource: 3}] * 2
    assert len(rack.claims()) == 2
    # What our own pods claim is theirs, and nobody else's.
    assert (seen.taken.get(one), seen.claimed.get(one)) == (None, None)
    stopped(rack, launch)


def test_launching_again_makes_nothing_twice(rack: Rack) -> None:
    node = rack.node(*rack.cards(2))
    launch = rack.ground.launch(rack.group(node))
    rack.ground.cluster.launch(launch)

    rack.ground.cluster.launch(launch)

    rack.ground.placed(launch)
    assert len(rack.templates()) == 1
    assert len(rack.claims()) == 1
    stopped(rack, launch)


def test_devices_of_a_task_that_has_ended_go_to_the_next(rack: Rack) -> None:
    node = rack.node(*rack.cards(2))
    first = alone(rack, rack.ground.launch(rack.group(node, units=2, **{"run-for": "100ms"})))
    rack.ground.ended(first)

    second = rack.ground.launch(rack.group(node, units=2), number=2)
    alone(rack, second)

    assert rack.ground.running(second)[0].node == node
    for launch in (first, second):
        rack.ground.cluster.stop(ref(launch), grace_seconds=0)
    until(lambda: not rack.claims() and not rack.templates())


def test_the_fence_of_a_team_counts_what_its_pods_claim(rack: Rack) -> None:
    ground, node = rack.ground, rack.node(*rack.cards(8))
    ground.cluster.ensure_team(ground.namespace, team="Night shift", ceiling={rack.resource: 2})

    inside = alone(rack, ground.launch(rack.group(node, units=2)))
    # Twice as many as a team may use, for claims outlive their pods for a moment.
    outside = ground.launch(rack.group(node, units=3))
    ground.cluster.launch(outside)

    refused = until(lambda: [wave.refusal for wave in ground.waves(outside) if wave.refusal])
    assert "exceeded quota" in refused[0]
    assert len(rack.claims()) == 1
    for launch in (inside, outside):
        ground.cluster.stop(ref(launch), grace_seconds=0)
    until(lambda: not rack.claims() and not rack.templates())


def test_devices_that_others_claim_are_taken(rack: Rack) -> None:
    node = rack.node(*rack.cards(3))
    exactly = {"deviceClassName": rack.name, "allocationMode": "ExactCount", "count": 1}
    rack.create("resourceclaims", {"name": "theirs"}, {"devices": {"requests": [{"name": "card", "exactly": exactly}]}})
    path = f"/apis/{API}/namespaces/{rack.ground.namespace}/resourceclaims/theirs"
    made = rack.ground.send("get", path)
    result = {"request": "card", "driver": DRIVER, "pool": node, "device": "gpu-1"}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    rack.ground.send("replace", f"{path}/status", body=made)

    seen = rack.seen()

    assert seen.taken[node] == {rack.resource: 1}
    rack.ground.send("delete", path)
