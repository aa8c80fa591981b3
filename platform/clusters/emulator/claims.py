"""Claims of devices: made from templates for pods, given devices when a pod is scheduled, deleted when it has ended."""

from collections.abc import Iterator

from clusters import classes
from clusters.emulator.core import finished, leaving
from clusters.emulator.deletion import delete
from clusters.emulator.errors import ApiError
from clusters.emulator.events import Recorder
from clusters.emulator.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from clusters.emulator.quotas import by_class
from clusters.emulator.registry import Registry
from clusters.emulator.store import Change, Object

SOURCE = "resource_claim"
MADE_FOR = "resource.kubernetes.io/pod-claim-name"
_PAUSE = 0.2


class Claims:
    """The claim controller, and the scheduler's book of devices."""

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        """Follow pods that claim devices."""
        self._registry = registry
        self._core = registry.core
        self._recorder = recorder
        self._core.store.listen(self._heed)

    def resume(self) -> None:
        """Look at every pod, as after a start."""
        for pod in self._core.store.bodies(PODS):
            self._heed_pod(pod)

    def wanted(self, pod: Object) -> dict[str, int]:
        """Return how many devices of each class a pod's claims want that have none yet."""
        total: dict[str, int] = {}
        for claim in self._claims_of(pod):
            if "allocation" not in (claim.get("status") or {}):
                for key, amount in by_class(claim).items():
                    name = key.partition(".deviceclass.")[0]
                    total[name] = total.get(name, 0) + amount // 1000
        return total

    def complaints(self, wanted: dict[str, int], node: str) -> list[str]:
        """Return why a node cannot give these devices, nothing when it can."""
        short = any(len(self._free(name, node)) < count for name, count in wanted.items())
        return ["cannot allocate all claims"] if short else []

    def allocate(self, pod: Object, node: str) -> None:
        """Give each claim of a pod devices of its node."""
        metadata = pod["metadata"]
        reserved = [{"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}]
        for claim in self._claims_of(pod):
            results: list[Object] = []
            for request in claim["spec"]["devices"]["requests"]:
                exactly = request["exactly"]
                found = self._free(exactly["deviceClassName"], node)[: exactly.get("count", 1)]
                results += [{"request": request["name"], **device} for device in found]
            status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
            self._registry.write(RESOURCE_CLAIMS, {**claim, "status": status})

    def _free(self, name: str, node: str) -> list[Object]:
        """Return the devices of a class on a node that no claim holds."""
        found = self._core.store.get(DEVICE_CLASSES, "", name)
        known = classes.read(found) if found else None
        held = {
            (result["driver"], result["pool"], result["device"])
            for claim in self._core.store.bodies(RESOURCE_CLAIMS)
            for result in (
                (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
            )
        }
        specs = [body["spec"] for body in self._core.store.bodies(RESOURCE_SLICES)]
        return [
            {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            for spec in specs
            if known is not None and spec.get("nodeName") == node
            for device in spec.get("devices") or ()
            if known.selects(spec["driver"], device)
            and (spec["driver"], spec["pool"]["name"], device["name"]) not in held
        ]

    def _heed(self, change: Change) -> None:
        if change.kind is PODS and not change.deleted:
            self._heed_pod(change.new.body)
        elif change.kind is RESOURCE_CLAIM_TEMPLATES and change.old is None:
            for pod in self._core.store.bodies(PODS, change.new.body["metadata"]["namespace"]):
                self._heed_pod(pod)

    def _heed_pod(self, pod: Object) -> None:
        if not pod["spec"].get("resourceClaims") or (claims_made(pod) and not finished(pod)):
            return
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._core.agenda.soon(("claims", namespace, name), lambda: self._sync(namespace, name))

    def _sync(self, namespace: str, name: str) -> None:
        """Make what a pod lacks, or take back what it needs no more."""
        pod = self._core.store.get(PODS, namespace, name)
        if pod is None:
            return
        if finished(pod):
            for claim in self._claims_of(pod):
                if MADE_FOR in (claim["metadata"].get("annotations") or {}):
                    delete(self._core, RESOURCE_CLAIMS, namespace, claim["metadata"]["name"])
        elif not leaving(pod):
            try:
                made = [self._made(pod, each) for each in pod["spec"]["resourceClaims"]]
            except ApiError as error:
                said = f"PodResourceClaim: create ResourceClaim : {error}"
                self._recorder.note(pod, PODS, "FailedResourceClaimCreation", said, source=SOURCE, warning=True)
                self._core.agenda.later(("claims again", namespace, name), _PAUSE, lambda: self._sync(namespace, name))
                return
            if all(made):
                statuses = [{"name": name, "resourceClaimName": claim} for name, claim in filter(None, made)]
                self._registry.write(PODS, {**pod, "status": {**pod["status"], "resourceClaimStatuses": statuses}})

    def _made(self, pod: Object, wish: Object) -> tuple[str, str] | None:
        """Return a claim's name in the pod and its own; None while its template is not there."""
        if "resourceClaimName" in wish:
            return wish["name"], wish["resourceClaimName"]
        metadata = pod["metadata"]
        for kind, body in self._core.store.owned(metadata["uid"]):
            if kind is RESOURCE_CLAIMS and body["metadata"]["annotations"][MADE_FOR] == wish["name"]:
                return wish["name"], body["metadata"]["name"]
        template = self._core.store.get(
            RESOURCE_CLAIM_TEMPLATES, metadata["namespace"], wish["resourceClaimTemplateName"]
        )
        if template is None:
            return None
        given = template["spec"].get("metadata") or {}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        body = {
            "metadata": {
                "generateName": f"{metadata['name']}-{wish['name']}-",
                "labels": given.get("labels") or {},
                "annotations": {**(given.get("annotations") or {}), MADE_FOR: wish["name"]},
                "ownerReferences": [owner],
            },
            "spec": template["spec"]["spec"],
        }
        made = self._registry.create(RESOURCE_CLAIMS, metadata["namespace"], body)
        return wish["name"], made["metadata"]["name"]

    def _claims_of(self, pod: Object) -> Iterator[Object]:
        for each in pod["status"].get("resourceClaimStatuses") or ():
            claim = self._core.store.get(RESOURCE_CLAIMS, pod["metadata"]["namespace"], each["resourceClaimName"])
            if claim is not None:
                yield claim


def claims_made(pod: Object) -> bool:
    """Tell whether a pod has the claims that it wants, or wants none."""
    wanted, made = pod["spec"].get("resourceClaims") or (), pod["status"].get("resourceClaimStatuses") or ()
    return len(wanted) == len(made)
