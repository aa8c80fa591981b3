"""What pods may say that people write themselves: an allow-list, and what only some teams may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clusters import kinds
from tenants.allowances import Allowance

if TYPE_CHECKING:
    from queues.spec.fields import Section

Json = Mapping[str, Any]


POD = frozenset(
    {
        *("containers", "initContainers", "volumes", "restartPolicy", "terminationGracePeriodSeconds"),
        *("activeDeadlineSeconds", "nodeSelector", "tolerations", "imagePullSecrets", "hostname", "subdomain"),
        *("setHostnameAsFQDN", "securityContext", "dnsPolicy", "dnsConfig", "schedulerName", "hostAliases", "os"),
        *("automountServiceAccountToken", "enableServiceLinks", "shareProcessNamespace", "readinessGates"),
        *("serviceAccountName", "serviceAccount", "hostNetwork", "hostPID", "hostIPC", "runtimeClassName"),
    }
)
CONTAINER = frozenset(
    {
        *("name", "image", "command", "args", "workingDir", "ports", "env", "envFrom", "resources", "volumeMounts"),
        *("volumeDevices", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext"),
        *("terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "restartPolicy", "stdin"),
        *("stdinOnce", "tty", "resizePolicy"),
    }
)
VOLUMES = frozenset(
    {
        *("name", "configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI", "ephemeral"),
        *("image", "hostPath"),
    }
)
# Why well-known fields are not taken, and what to say instead.
INSTEAD = {
    "nodeName": "the queue chooses nodes; narrow them by nodeSelector",
    "affinity": "the queue chooses nodes; narrow them by nodeSelector, or say tidegate.io/topology",
    "topologySpreadConstraints": "the queue chooses nodes; say tidegate.io/topology",
    "schedulingGates": "the queue sets its own",
    "priorityClassName": "say it by the label kueue.x-k8s.io/priority-class or tidegate.io/priority-class",
    "priority": "say a class by the label kueue.x-k8s.io/priority-class or tidegate.io/priority-class",
    "preemptionPolicy": "who gives way is decided by the queue",
    "resourceClaims": "devices that are claimed are not counted yet; ask for them by limits",
    "overhead": "it comes with a runtime class",
    "ephemeralContainers": "they are for debugging a pod that runs",
}
# What Kubernetes' own baseline lets every pod add.
CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_HOST = ("hostNetwork", "hostPID", "hostIPC")
_UNCONFINED = ("seccompProfile", "appArmorProfile")

Wrong = Callable[[str, str, str], None]
"""Notes an error: pointer, code, words."""


def check(section: Section, pod: Json, pointer: str, *, team: str, allowed: frozenset[str]) -> None:
    """Note everything in a pod's spec that is not taken, or not from this team."""
    _Check(section, team, allowed).pod(pod, pointer)


class _Check:
    def __init__(self, section: Section, team: str, allowed: frozenset[str]) -> None:
        self.section, self.team, self.allowed = section, team, allowed

    def pod(self, pod: Json, pointer: str) -> None:
        self.fields(pod, POD, pointer)
        for field in _HOST:
            if pod.get(field):
                self.needs(Allowance.HOST_NAMESPACES, f"{pointer}/{field}", field)
        if pod.get("dnsPolicy") == "ClusterFirstWithHostNet":
            self.needs(Allowance.HOST_NAMESPACES, f"{pointer}/dnsPolicy", "dnsPolicy: ClusterFirstWithHostNet")
        for field in ("serviceAccountName", "serviceAccount"):
            if pod.get(field) not in (None, "", "default"):
                self.needs(Allowance.SERVICE_ACCOUNTS, f"{pointer}/{field}", f"the service account {pod[field]}")
        if pod.get("schedulerName") not in (None, "", "default-scheduler"):
            self.wrong(f"{pointer}/schedulerName", "not_allowed", "pods are placed by default-scheduler")
        self.security(kinds.mapping(pod.get("securityContext")), f"{pointer}/securityContext")
        if kinds.mapping(pod.get("securityContext")).get("sysctls"):
            self.needs(Allowance.PRIVILEGED, f"{pointer}/securityContext/sysctls", "sysctls")
        for place, volume in _each(pod.get("volumes")):
            self.fields(volume, VOLUMES, f"{pointer}/volumes/{place}")
            if volume.get("hostPath") is not None:
                self.needs(Allowance.HOST_PATH, f"{pointer}/volumes/{place}/hostPath", "hostPath")
        for part in ("containers", "initContainers"):
            for place, container in _each(pod.get(part)):
                self.container(container, f"{pointer}/{part}/{place}")

    def container(self, container: Json, pointer: str) -> None:
        self.fields(container, CONTAINER, pointer)
        for place, port in _each(container.get("ports")):
            if port.get("hostPort"):
                self.needs(Allowance.HOST_PORTS, f"{pointer}/ports/{place}/hostPort", "hostPort")
        if kinds.mapping(container.get("resources")).get("claims"):
            self.wrong(f"{pointer}/resources/claims", "not_allowed", INSTEAD["resourceClaims"])
        security = kinds.mapping(container.get("securityContext"))
        where = f"{pointer}/securityContext"
        self.security(security, where)
        if security.get("privileged"):
            self.needs(Allowance.PRIVILEGED, f"{where}/privileged", "privileged")
        if security.get("procMount") not in (None, "Default"):
            self.needs(Allowance.PRIVILEGED, f"{where}/procMount", "procMount")
        added = kinds.mapping(security.get("capabilities")).get("add")
        for place, name in enumerate(added if isinstance(added, list) else ()):
            if not isinstance(name, str) or name not in CAPABILITIES:
                self.needs(Allowance.CAPABILITIES, f"{where}/capabilities/add/{place}", f"the capability {name}")

    def security(self, security: Json, pointer: str) -> None:
        for field in _UNCONFINED:
            if kinds.mapping(security.get(field)).get("type") == "Unconfined":
                self.needs(Allowance.PRIVILEGED, f"{pointer}/{field}", f"an unconfined {field}")
        if security.get("seLinuxOptions"):
            self.needs(Allowance.PRIVILEGED, f"{pointer}/seLinuxOptions", "seLinuxOptions")
        if security.get("windowsOptions"):
            self.wrong(f"{pointer}/windowsOptions", "not_allowed", "windowsOptions is not taken")

    def fields(self, found: Json, known: frozenset[str], pointer: str) -> None:
        for field, value in found.items():
            if field not in known and value not in (None, {}, []):
                why = INSTEAD.get(field, "only what the queue can see through is taken")
                self.wrong(f"{pointer}{kinds.pointer((str(field),))}", "not_allowed", f"{field} is not taken: {why}")

    def needs(self, allowance: Allowance, pointer: str, what: str) -> None:
        if allowance not in self.allowed:
            detail = f"{what} is not allowed to team {self.team}: a platform admin may allow it ({allowance})"
            self.wrong(pointer, "not_allowed", detail)

    def wrong(self, pointer: str, code: str, detail: str) -> None:
        self.section.wrong(pointer, code, detail)


def _each(found: object) -> Iterator[tuple[int, Json]]:
    for place, value in enumerate(found if isinstance(found, list) else ()):
        if isinstance(value, Mapping):
            yield place, value
