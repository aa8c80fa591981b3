"""What pods may say that people write themselves: an allow-list, and what only some teams may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clusters import paths
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
        *("serviceAccountName", "serviceAccount", "hostNetwork", "hostPID", "hostIPC", "hostUsers"),
        "runtimeClassName",
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
SECURITY = frozenset(
    {
        *("runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions", "windowsOptions", "seccompProfile"),
        "appArmorProfile",
    }
)
POD_SECURITY = SECURITY | {
    *("supplementalGroups", "supplementalGroupsPolicy", "fsGroup", "fsGroupChangePolicy", "seLinuxChangePolicy"),
    "sysctls",
}
CONTAINER_SECURITY = SECURITY | {
    *("capabilities", "privileged", "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount"),
}
PROJECTED = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
METADATA = frozenset({"labels", "annotations", "creationTimestamp"})
# By these the NVIDIA runtime gives a container cards that it did not ask for.
DEVICES = frozenset({"NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES"})
NO_DEVICES = frozenset({"", "none", "void"})
PAST_THE_QUEUE = "is not taken: it would give cards that were not admitted; say how many GPUs a task needs"
# Kubernetes sets these by itself, and people say how long a pod bears them.
BORNE = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
RESERVED = ("node.kubernetes.io/", "node-role.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
# Before Kubernetes had fields for it, profiles were named by annotations, which it still reads.
PROFILES = ("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/")
# Why well-known fields are not taken, and what to say instead.
INSTEAD = {
    "nodeName": "the queue chooses nodes; narrow them by nodeSelector",
    "affinity": "the queue chooses nodes; narrow them by nodeSelector, or say tidegate.io/topology",
    "topologySpreadConstraints": "the queue chooses nodes; say tidegate.io/topology",
    "schedulingGates": "the queue sets its own",
    "priorityClassName": "say it by the label kueue.x-k8s.io/priority-class or tidegate.io/priority-class",
    "priority": "say a class by the label kueue.x-k8s.io/priority-class or tidegate.io/priority-class",
    "preemptionPolicy": "who gives way is decided by the queue",
    "resourceClaims": "ask for devices of a class by limits: deviceclass.resource.kubernetes.io/CLASS",
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


def check(section: Section, template: Json, pointer: str, *, team: str, allowed: frozenset[str]) -> None:
    """Note everything in a pod template that is not taken, or not from this team."""
    rules = _Check(section, team, allowed)
    rules.metadata(paths.mapping(template.get("metadata")), f"{pointer}/metadata")
    rules.pod(paths.mapping(template.get("spec")), f"{pointer}/spec")


def check_env(section: Section, env: object, pointer: str) -> None:
    """Note variables that give a container cards past what it asks for."""
    _Check(section, "", frozenset()).env(env, pointer)


class _Check:
    def __init__(self, section: Section, team: str, allowed: frozenset[str]) -> None:
        self.section, self.team, self.allowed = section, team, allowed

    def metadata(self, meta: Json, pointer: str) -> None:
        self.fields(meta, METADATA, pointer, "of a pod's metadata only labels and annotations are taken")
        for key, value in paths.mapping(meta.get("annotations")).items():
            if str(key).startswith(PROFILES) and value == "unconfined":
                self.needs(Allowance.PRIVILEGED, f"{pointer}/annotations{paths.pointer((str(key),))}", str(key))

    def pod(self, pod: Json, pointer: str) -> None:
        self.fields(pod, POD, pointer)
        for field in _HOST:
            if pod.get(field):
                self.needs(Allowance.HOST_NAMESPACES, f"{pointer}/{field}", field)
        if pod.get("dnsPolicy") == "ClusterFirstWithHostNet":
            self.needs(Allowance.HOST_NAMESPACES, f"{pointer}/dnsPolicy", "dnsPolicy: ClusterFirstWithHostNet")
        if pod.get("runtimeClassName"):
            # A class may give cards past the queue (its runtime reads what the image says), overhead, and other nodes.
            what = f"the runtime class {pod['runtimeClassName']}"
            self.needs(Allowance.RUNTIME_CLASSES, f"{pointer}/runtimeClassName", what)
        self.account(pod, pointer)
        if pod.get("schedulerName") not in (None, "", "default-scheduler"):
            self.wrong(f"{pointer}/schedulerName", "not_allowed", "pods are placed by default-scheduler")
        security, where = paths.mapping(pod.get("securityContext")), f"{pointer}/securityContext"
        self.security(security, POD_SECURITY, where)
        if security.get("sysctls"):
            self.needs(Allowance.PRIVILEGED, f"{where}/sysctls", "sysctls")
        for place, toleration in self.each(pod, "tolerations", pointer):
            self.toleration(toleration, f"{pointer}/tolerations/{place}")
        for place, volume in self.each(pod, "volumes", pointer):
            self.volume(volume, f"{pointer}/volumes/{place}")
        for part in ("containers", "initContainers"):
            for place, container in _each(pod.get(part)):
                self.container(container, f"{pointer}/{part}/{place}")

    def account(self, pod: Json, pointer: str) -> None:
        for field in ("serviceAccountName", "serviceAccount"):
            if pod.get(field) not in (None, "", "default"):
                self.needs(Allowance.SERVICE_ACCOUNTS, f"{pointer}/{field}", f"the service account {pod[field]}")
        if pod.get("automountServiceAccountToken"):
            what = "the token of a service account"
            self.needs(Allowance.SERVICE_ACCOUNTS, f"{pointer}/automountServiceAccountToken", what)

    def toleration(self, toleration: Json, pointer: str) -> None:
        key = str(toleration.get("key") or "")
        if (not key or key.startswith(RESERVED)) and key not in BORNE:
            what = f"a toleration of {key or 'every taint'}"
            detail = f"{what} is not taken: which taints pods bear is said of the GPU type, by an admin"
            self.wrong(pointer, "not_allowed", detail)

    def volume(self, volume: Json, pointer: str) -> None:
        self.fields(volume, VOLUMES, pointer)
        if volume.get("hostPath") is not None:
            self.needs(Allowance.HOST_PATH, f"{pointer}/hostPath", "hostPath")
        sources = f"{pointer}/projected/sources"
        for place, source in self.each(paths.mapping(volume.get("projected")), "sources", f"{pointer}/projected"):
            self.fields(source, PROJECTED, f"{sources}/{place}")
            if source.get("serviceAccountToken") is not None:
                where = f"{sources}/{place}/serviceAccountToken"
                self.needs(Allowance.SERVICE_ACCOUNTS, where, "the token of a service account")

    def container(self, container: Json, pointer: str) -> None:
        self.fields(container, CONTAINER, pointer)
        for place, port in self.each(container, "ports", pointer):
            if port.get("hostPort"):
                self.needs(Allowance.HOST_PORTS, f"{pointer}/ports/{place}/hostPort", "hostPort")
        if paths.mapping(container.get("resources")).get("claims"):
            self.wrong(f"{pointer}/resources/claims", "not_allowed", INSTEAD["resourceClaims"])
        self.env(container.get("env"), f"{pointer}/env")
        self.hosts(container, pointer)
        security, where = paths.mapping(container.get("securityContext")), f"{pointer}/securityContext"
        self.security(security, CONTAINER_SECURITY, where)
        if security.get("privileged"):
            self.needs(Allowance.PRIVILEGED, f"{where}/privileged", "privileged")
        if security.get("procMount") not in (None, "Default"):
            self.needs(Allowance.PRIVILEGED, f"{where}/procMount", "procMount")
        self.capabilities(paths.mapping(security.get("capabilities")), f"{where}/capabilities")

    def capabilities(self, given: Json, pointer: str) -> None:
        added = given.get("add")
        if added is not None and not isinstance(added, list):
            self.wrong(f"{pointer}/add", "not_a_list", "add is a list of capabilities")
        for place, name in enumerate(added if isinstance(added, list) else ()):
            if not isinstance(name, str) or name not in CAPABILITIES:
                self.needs(Allowance.CAPABILITIES, f"{pointer}/add/{place}", f"the capability {name}")

    def env(self, env: object, pointer: str) -> None:
        for place, variable in _each(env):
            name, value = variable.get("name"), variable.get("value")
            if name in DEVICES and ("valueFrom" in variable or str(value or "").lower() not in NO_DEVICES):
                self.wrong(f"{pointer}/{place}", "not_allowed", f"{name} {PAST_THE_QUEUE}")

    def hosts(self, container: Json, pointer: str) -> None:
        """Refuse probes and hooks that make the kubelet call another host than the pod."""
        hooks = paths.mapping(container.get("lifecycle"))
        calls = [(f"lifecycle/{name}", hooks.get(name)) for name in ("postStart", "preStop")]
        calls += [(name, container.get(name)) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
        for name, call in calls:
            for how in ("httpGet", "tcpSocket"):
                if paths.mapping(paths.mapping(call).get(how)).get("host"):
                    what = f"a call of another host in {name.rpartition('/')[2]}"
                    self.needs(Allowance.HOST_NAMESPACES, f"{pointer}/{name}/{how}/host", what)

    def security(self, security: Json, known: frozenset[str], pointer: str) -> None:
        self.fields(security, known, pointer)
        for field in _UNCONFINED:
            if paths.mapping(security.get(field)).get("type") == "Unconfined":
                self.needs(Allowance.PRIVILEGED, f"{pointer}/{field}", f"an unconfined {field}")
        if security.get("seLinuxOptions"):
            self.needs(Allowance.PRIVILEGED, f"{pointer}/seLinuxOptions", "seLinuxOptions")
        if security.get("windowsOptions"):
            self.wrong(f"{pointer}/windowsOptions", "not_allowed", "windowsOptions is not taken")

    def each(self, found: Json, field: str, pointer: str) -> Iterator[tuple[int, Json]]:
        """Yield the mappings of a list, and note what is none."""
        given = found.get(field)
        if given is not None and not isinstance(given, list):
            self.wrong(f"{pointer}/{field}", "not_a_list", f"{field} is a list")
        return _each(given)

    def fields(self, found: Json, known: frozenset[str], pointer: str, why: str = "") -> None:
        for field, value in found.items():
            if field not in known and value not in (None, {}, []):
                words = INSTEAD.get(field, why or "only what the queue can see through is taken")
                self.wrong(f"{pointer}{paths.pointer((str(field),))}", "not_allowed", f"{field} is not taken: {words}")

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
