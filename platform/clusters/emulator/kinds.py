"""The kinds of objects that the emulator knows, and how discovery tells of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One resource of the API; there is one instance of each, compared by identity."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """Return ``apiVersion`` as objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return the name that messages use, such as ``jobs.batch``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NAMESPACES = Kind(
    kind="Namespace", plural="namespaces", namespaced=False, short=("ns",), subresources=("status", "finalize")
)
NODES = Kind(kind="Node", plural="nodes", namespaced=False, short=("no",), subresources=("status",))
PODS = Kind(
    kind="Pod",
    plural="pods",
    short=("po",),
    subresources=("status", "binding", "eviction", "log", "ephemeralcontainers"),
)
EVENTS = Kind(kind="Event", plural="events", short=("ev",))
SERVICES = Kind(kind="Service", plural="services", short=("svc",), subresources=("status",))
RESOURCE_QUOTAS = Kind(kind="ResourceQuota", plural="resourcequotas", short=("quota",), subresources=("status",))
SECRETS = Kind(kind="Secret", plural="secrets")
CONFIG_MAPS = Kind(kind="ConfigMap", plural="configmaps", short=("cm",))
SERVICE_ACCOUNTS = Kind(kind="ServiceAccount", plural="serviceaccounts", short=("sa",))
JOBS = Kind(kind="Job", plural="jobs", group="batch", subresources=("status",))
PRIORITY_CLASSES = Kind(
    kind="PriorityClass", plural="priorityclasses", group="scheduling.k8s.io", namespaced=False, short=("pc",)
)
LEASES = Kind(kind="Lease", plural="leases", group="coordination.k8s.io")
RESOURCE_CLAIMS = Kind(kind="ResourceClaim", plural="resourceclaims", group="resource.k8s.io", subresources=("status",))
RESOURCE_CLAIM_TEMPLATES = Kind(kind="ResourceClaimTemplate", plural="resourceclaimtemplates", group="resource.k8s.io")
DEVICE_CLASSES = Kind(kind="DeviceClass", plural="deviceclasses", group="resource.k8s.io", namespaced=False)
RESOURCE_SLICES = Kind(kind="ResourceSlice", plural="resourceslices", group="resource.k8s.io", namespaced=False)

# Kinds that people install with their controllers: only stored, and served where asked for. Nobody runs their pods.
INSTALLED = tuple(
    Kind(kind=kind, plural=f"{kind.lower()}s", group=group, version=version, subresources=("status",))
    for kind, group, version in (
        ("PyTorchJob", "kubeflow.org", "v1"),
        ("MPIJob", "kubeflow.org", "v2beta1"),
        ("TrainJob", "trainer.kubeflow.org", "v1alpha1"),
        ("RayJob", "ray.io", "v1"),
    )
)
BUILT_IN = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    SERVICES,
    RESOURCE_QUOTAS,
    SECRETS,
    CONFIG_MAPS,
    SERVICE_ACCOUNTS,
    JOBS,
    PRIORITY_CLASSES,
    LEASES,
    RESOURCE_SLICES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    DEVICE_CLASSES,
)
KINDS = (*BUILT_IN, *INSTALLED)
BY_PATH = {(each.group, each.version, each.plural): each for each in KINDS}
BY_OWNER = {(each.api_version, each.kind): each for each in KINDS}
Served = Sequence[Kind]

_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding", ["create"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
    "log": ("", "v1", "Pod", ["get"]),
    "finalize": ("", "v1", "Namespace", ["update"]),
}


def version_document(git_version: str) -> dict[str, Any]:
    """Return what /version says."""
    major, minor, *_ = git_version.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def core_versions(address: str) -> dict[str, Any]:
    """Return what /api says."""
    servers = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": servers}


def groups(served: Served) -> list[tuple[str, str]]:
    """Return the groups of these kinds with their versions."""
    return sorted({(each.group, each.version) for each in served if each.group})


def group_document(group: str, served: Served) -> dict[str, Any]:
    """Return what /apis/GROUP says."""
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version} for name, version in groups(served) if name == group
    ]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def group_list(served: Served) -> dict[str, Any]:
    """Return what /apis says."""
    names = sorted({name for name, _ in groups(served)})
    documents = (group_document(name, served) for name in names)
    found = [{key: value for key, value in each.items() if key not in {"kind", "apiVersion"}} for each in documents]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resource_list(group: str, version: str, served: Served) -> dict[str, Any]:
    """Return what /api/v1 or /apis/GROUP/VERSION says."""
    resources: list[dict[str, Any]] = []
    for kind in served:
        if (kind.group, kind.version) != (group, version):
            continue
        resources.append(
            {
                "name": kind.plural,
                "singularName": kind.kind.lower(),
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": list(VERBS),
                "shortNames": list(kind.short),
            }
        )
        resources += [_subresource(kind, name) for name in kind.subresources]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _subresource(kind: Kind, name: str) -> dict[str, Any]:
    """Return discovery's line about one subresource."""
    default = (kind.group, kind.version, kind.kind, ["get", "patch", "update"])
    group, version, shown, verbs = _SUBRESOURCE_KINDS.get(name, default)
    line: dict[str, Any] = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": shown,
        "verbs": verbs,
    }
    if group != kind.group:
        line |= {"group": group, "version": version}
    return line
