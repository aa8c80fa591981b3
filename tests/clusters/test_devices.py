"""What is read of devices where the cluster is old, forbids it, or does not know them."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from clusters.asking import Asker, Failure
from clusters.devices import BY_LIMITS, Devices, allocated, blocked, places
from clusters.kube import KubeCluster
from clusters.names import LABEL_WAVE
from clusters.port import GroupSpec, Launch, Refused, TaskSpec, Unreachable

RIGHT = 'resourceslices.resource.k8s.io is forbidden: User "x" cannot list resource "resourceslices" in API group "r"'


def piece(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a spec
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": "s1"},
        "spec": {"driver": "gpu.a", "pool": pool, "nodeName": "n1", "devices": [{"name": "d0"}], **changes},
    }


class Server:
    """Serves these versions of the group (None: no such group) and one slice; ``status`` refuses its list."""

    def __init__(
        self, versions: tuple[str, ...] | None, *, status: int = 200, claims: list[dict[str, Any]] | None = None
    ) -> None:
        self.versions, self.status, self.claims = versions, status, claims or []
        self.asked: list[str] = []
        self.slices: list[dict[str, Any]] = [piece()]
        self.classes: list[dict[str, Any]] = []

    def ask(self, _verb: str, path: str, **_: Any) -> Any:  # noqa: ANN401  a decoded answer
        self.asked.append(path)
        if not path.startswith("/apis/resource.k8s.io"):
            return {"metadata": {"name": "made", "uid": "u-1"}}
        if path == "/apis/resource.k8s.io":
            if self.versions is None:
                raise Failure(404, b"404 page not found", {})
            return {"versions": [{"version": version} for version in self.versions]}
        if path.split("/")[3] not in (self.versions or ()):
            raise Failure(404, b"404 page not found", {})
        if self.status != 200:
            raise Failure(self.status, json.dumps({"message": RIGHT}).encode(), {})
        if path.endswith("/resourceclaims"):
            return {"items": self.claims, "metadata": {"resourceVersion": "7"}}
        items = self.classes if path.endswith("/deviceclasses") else self.slices
        return {"items": items, "metadata": {"resourceVersion": "7"}}


@pytest.fixture
def devices() -> Callable[[Server], Devices]:
    return lambda server: Devices(Asker(cast("Any", server)), cluster="east")


@pytest.mark.parametrize(
    ("served", "taken"),
    [
        (("v1", "v1beta2", "v1beta1"), "v1"),
        (("v1beta1", "v1beta2"), "v1beta2"),
        (("v1beta1",), "v1beta1"),
    ],
)
def test_the_newest_version_that_is_served_is_read(
    devices: Callable[[Server], Devices], served: tuple[str, ...], taken: str
) -> None:
    server = Server(served)

    found = devices(server).listed()

    assert found == {"n1": {"gpu.a": 1}}
    assert server.asked[-1] == f"/apis/resource.k8s.io/{taken}/resourceslices"


@pytest.mark.parametrize("served", [None, (), ("v1alpha3",)])
def test_a_cluster_that_does_not_know_them_has_none(
    devices: Callable[[Server], Devices], served: tuple[str, ...] | None
) -> None:
    assert devices(Server(served)).listed() == {}


def test_a_version_that_went_with_an_upgrade_is_followed_by_the_next(devices: Callable[[Server], Devices]) -> None:
    server = Server(("v1beta1",))
    read = devices(server)
    read.listed()
    server.versions = ("v1",)

    lost, found = read.listed(), read.listed()

    assert (lost, found) == ({}, {"n1": {"gpu.a": 1}})


def test_a_right_that_is_lacking_is_told_once_and_hides_nothing_else(
    devices: Callable[[Server], Devices], caplog: pytest.LogCaptureFixture
) -> None:
    read = devices(Server(("v1",), status=403))

    found = [read.listed(), read.listed()]

    assert found == [{}, {}]
    assert [record.getMessage() for record in caplog.records] == [f"cluster east: devices of DRA are not read: {RIGHT}"]


def test_a_server_that_fails_is_no_server_without_devices(devices: Callable[[Server], Devices]) -> None:
    with pytest.raises(Unreachable):
        devices(Server(("v1",), status=503)).listed()


def test_devices_are_counted_where_they_are() -> None:
    new = {"name": "n1", "generation": 2, "resourceSliceCount": 1}
    each = [{"name": "d0", "nodeName": "n2"}, {"name": "d1", "basic": {"nodeName": "n3"}}, {"name": "d2"}]

    found = places(
        each["spec"]
        for each in [
            piece(),
            piece(pool=new, devices=[{"name": "d0"}, {"name": "d1"}]),
            piece(driver="dra.net", devices=[{"name": "eth0", "basic": {}}]),
            piece(driver="gpu.b", nodeName=None, perDeviceNodeSelection=True, devices=each),
            piece(driver="gpu.c", nodeName=None, allNodes=True),
            piece(driver="gpu.d", devices=None),
        ]
    )

    assert {device: node for device, (node, _) in found.items()} == {
        ("gpu.a", "n1", "d0"): "n1",
        ("gpu.a", "n1", "d1"): "n1",
        ("dra.net", "n1", "eth0"): "n1",
        ("gpu.b", "n1", "d0"): "n2",
        ("gpu.b", "n1", "d1"): "n3",
    }


def claim(*devices: str, notes: dict[str, str] | None = None, **result: object) -> dict[str, Any]:
    """Return a claim that holds devices of pool n1."""
    results = [{"driver": "gpu.a", "pool": "n1", "device": device, **result} for device in devices]
    return {"metadata": {"annotations": notes or {}}, "status": {"allocation": {"devices": {"results": results}}}}


def test_a_device_is_held_by_whoever_claims_it_but_for_lookers_and_pods_that_are_counted_anyway() -> None:
    found = allocated(
        [
            claim("d0", "d1"),
            claim("d2", adminAccess=True),
            claim("d3", notes={BY_LIMITS: "true"}),
            {"metadata": {}, "status": {}},
        ]
    )

    assert list(found) == [("gpu.a", "n1", "d0"), ("gpu.a", "n1", "d1")]


def part(name: str, card: str, memory: str, slices: str) -> dict[str, Any]:
    """Return a card, or a partition of one, that takes so much of the card."""
    counters = {"memory": {"value": memory}, "slices": {"value": slices}}
    kind = {"type": {"string": "gpu" if name == card else "mig"}}
    return {"name": name, "attributes": kind, "consumesCounters": [{"counterSet": card, "counters": counters}]}


def partitioned() -> dict[str, Any]:
    """Return a slice of two cards of 80 GiB and 7 slices, the first of which may be cut into 4 and 3 slices or 1."""
    whole = {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}
    cards = [part(card, card, "80Gi", "7") for card in ("gpu-0", "gpu-1")]
    cuts = [part("four", "gpu-0", "40Gi", "4"), part("three", "gpu-0", "40Gi", "3"), part("one", "gpu-0", "10Gi", "1")]
    return piece(devices=[*cards, *cuts], sharedCounters=[{"name": c, "counters": whole} for c in ("gpu-0", "gpu-1")])


@pytest.mark.parametrize(
    ("held", "lost"),
    [
        ((), set()),
        (("gpu-0",), {"four", "three", "one"}),
        (("four",), {"gpu-0"}),
        (("four", "three"), {"gpu-0", "one"}),
        (("three", "one"), {"gpu-0", "four"}),
        (("gpu-1",), set()),
    ],
)
def test_what_is_held_of_a_card_keeps_from_anybody_what_no_longer_fits_beside_it(
    held: tuple[str, ...], lost: set[str]
) -> None:
    specs = [partitioned()["spec"]]

    found = blocked(specs, places(specs), {("gpu.a", "n1", name) for name in held})

    assert {name for _, _, name in found} == lost


def test_a_card_of_which_somebody_holds_a_partition_is_taken_from_the_class_of_whole_cards(
    devices: Callable[[Server], Devices],
) -> None:
    server = Server(("v1",), claims=[claim("four"), claim("three")])
    server.slices = [partitioned()]
    conditions = ("device.driver == 'gpu.a' && device.attributes['gpu.a'].type == ", "'gpu'", "'mig'")
    server.classes = [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": conditions[0] + value}}]}}
        for name, value in zip(("whole", "cut"), conditions[1:], strict=True)
    ]
    read = devices(server)

    read.listed()
    by_driver, offered, taken = read.claimed(), read.offered(), read.taken()

    whole, cut = (f"deviceclass.resource.kubernetes.io/{name}" for name in ("whole", "cut"))
    assert by_driver == {"n1": {"gpu.a": 2}}
    assert offered == {"n1": {whole: 2, cut: 3}}
    assert taken == {"n1": {whole: 1, cut: 3}}


def test_the_devices_of_all_requests_of_a_claim_are_held() -> None:
    several = claim("d0", request="big")
    results = several["status"]["allocation"]["devices"]["results"]
    results += claim("d1", request="small/first")["status"]["allocation"]["devices"]["results"]
    results += claim("d2", request="look", adminAccess=True)["status"]["allocation"]["devices"]["results"]

    assert list(allocated([several])) == [("gpu.a", "n1", "d0"), ("gpu.a", "n1", "d1")]


def test_claims_are_counted_where_their_devices_are(devices: Callable[[Server], Devices]) -> None:
    server = Server(("v1",), claims=[claim("d0"), claim("d0"), claim("elsewhere")])
    read = devices(server)
    read.listed()

    assert read.claimed() == {"n1": {"gpu.a": 1}}


RESOURCE = "deviceclass.resource.kubernetes.io/gpus"
WAVE = "0193e9d0-0000-7000-8000-000000000001"
TASK = TaskSpec(index=0, task=0, node="n1")
GROUP = GroupSpec(group=0, tasks=(TASK,), resource=RESOURCE, units=2, cpu=1000, memory=2**30, image="reg.example/x:1")
LAUNCH = Launch(
    wave=WAVE,
    job=WAVE,
    job_name="train",
    number=1,
    attempt=1,
    team="nlp",
    queue="default",
    namespace="team-nlp",
    gang=True,
    groups=(GROUP,),
    priority_class="normal",
    priority_value=0,
)
OWNER = {"metadata": {"name": "tg-1", "uid": "u-1"}}


def test_claims_that_carry_our_wave_are_nobody_elses(devices: Callable[[Server], Devices]) -> None:
    ours = claim("d0")
    ours["metadata"]["labels"] = {LABEL_WAVE: WAVE}
    read = devices(Server(("v1",), claims=[ours]))
    read.listed()

    assert read.claimed() == {}


@pytest.mark.parametrize("served", [None, (), ("v1alpha3",), ("v1beta1",)])
def test_where_claims_have_another_form_a_launch_is_refused_before_anything_is_made(
    served: tuple[str, ...] | None,
) -> None:
    server = Server(served)
    cluster = KubeCluster("east", cast("Any", server))

    with pytest.raises(Refused, match=r"serves no resource\.k8s\.io/v1"):
        cluster.launch(LAUNCH)

    assert not [path for path in server.asked if path.endswith("/jobs")]


def test_a_version_that_goes_while_a_wave_is_launched_is_unknown_and_asked_for_anew(
    devices: Callable[[Server], Devices],
) -> None:
    server = Server(("v1beta2",))
    read = devices(server)
    read.ensure_served()
    server.versions = ("v1",)

    with pytest.raises(Unreachable, match="served no more"):
        read.ensure_template(LAUNCH, GROUP, owner=OWNER)
    read.ensure_served()
    read.ensure_template(LAUNCH, GROUP, owner=OWNER)

    assert server.asked[-1] == "/apis/resource.k8s.io/v1/namespaces/team-nlp/resourceclaimtemplates"
