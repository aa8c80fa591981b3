"""Where a soak happens: nodes in the cluster, teams with quotas, and one person who may do everything."""

import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

from django.utils import timezone

from clusters.asking import Failure
from clusters.kinds import Kind
from clusters.kube import KubeCluster
from queues import services
from queues.models import Node
from queues.namespaces import namespace_of
from queues.soak import manifests
from tenants import services as tenants
from tenants.models import GlobalRole, User
from tenants.permissions import Actor, Scope, system

FLAVOR, LABEL = "gpu", "tidegate.io/soak"
# Team, department, guaranteed, borrow limit: 64 of 72 GPUs are promised.
TEAMS = (("red", "west", 24, None), ("blue", "west", 16, 16), ("green", "east", 16, None), ("grey", "east", 8, 0))
QUOTAS = {team: guaranteed for team, _, guaranteed, _ in TEAMS}
NODES = 9
UNITS_A_NODE = 8
NODES_SECONDS = 60.0
NOT_FOUND = 404


class Ground:
    """The nodes of one soak on a cluster, told from others by a label."""

    def __init__(self, cluster: KubeCluster) -> None:
        """Name the nodes; nothing is made yet."""
        self.cluster, self.key = cluster, uuid4().hex[:6]
        self.nodes = [f"soak-{self.key}-{number}" for number in range(NODES)]

    def open(self) -> str:
        """Make nodes, teams and quotas; return a token that may do everything."""
        for name in self.nodes:
            self.cluster.api.ask("create", "/api/v1/nodes", body=self._machine(name))
        by, now = system(), timezone.now()
        units = NODES * UNITS_A_NODE
        tenants.create_flavor(by=by, now=now, name=FLAVOR, installed=units, values={"node_labels": {LABEL: self.key}})
        for name, value in (("low", -1), ("normal", 0), ("high", 1)):
            services.set_priority_class(name=name, value=value, by=by, now=now)
        for department in dict.fromkeys(department for _, department, _, _ in TEAMS):
            tenants.create_team(by=by, now=now, name=department)
        policy: services.QueuePolicy = {
            "hold_after": timedelta(seconds=60),
            "start_limit": timedelta(seconds=60),
            "preempt_within_team": "lower_priority",
            "max_grace": timedelta(seconds=2),
        }
        for team, department, _, _ in TEAMS:
            tenants.create_team(by=by, now=now, name=team, parent=department)
            services.change_queue(team=team, name="default", policy=policy, by=by, now=now)
            # Somebody may make an object there before the first job does.
            self.cluster.ensure_team(namespace_of(team), team=team, ceiling=None)
        tenants.set_quotas(
            by=by,
            now=now,
            edits=[
                tenants.QuotaEdit(team=team, flavor=FLAVOR, guaranteed=guaranteed, borrow_limit=borrow)
                for team, _, guaranteed, borrow in TEAMS
            ],
        )
        user = User.objects.create_user("soak", global_role=GlobalRole.ADMIN)
        return tenants.create_token(by=Actor(user=user), now=now, name="soak", scopes=[Scope.ADMIN]).secret

    def wait(self) -> None:
        """Wait until the watcher has shown all nodes as usable."""
        end = time.monotonic() + NODES_SECONDS
        while sum(node.usable for node in Node.objects.filter(name__in=self.nodes)) < NODES:
            if time.monotonic() > end:
                raise TimeoutError("the watcher has not shown the nodes as usable")
            time.sleep(0.1)

    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds of objects that the cluster serves."""
        groups = self.cluster.api.ask("get", "/apis").get("groups") or []
        served = {version["groupVersion"] for group in groups for version in group["versions"]}
        return tuple(kind for kind in manifests.KNOWN if kind.api in served and self._is_listed(kind))

    def _is_listed(self, kind: Kind) -> bool:
        found = self.cluster.api.ask("get", f"/apis/{kind.api}")["resources"]
        return any(resource["name"] == kind.plural for resource in found)

    def cordon(self, node: str, *, cordoned: bool) -> None:
        """Let nothing new onto a node, or let it again."""
        patch = {"spec": {"unschedulable": cordoned}}
        media = "application/strategic-merge-patch+json"
        self.cluster.api.ask("patch", f"/api/v1/nodes/{node}", body=patch, media=media)

    def delete(self, path: str) -> None:
        """Delete an object behind Tidegate's back; one that is gone is passed over."""
        try:
            self.cluster.api.ask("delete", path, query={"propagationPolicy": "Background"})
        except Failure as failure:
            if failure.status != NOT_FOUND:
                raise

    def close(self) -> None:
        """Take the nodes away again."""
        for name in self.nodes:
            self.delete(f"/api/v1/nodes/{name}")

    def left(self) -> Iterator[str]:
        """Yield what of ours is still in the cluster: Jobs, pods, Services."""
        there = self.cluster.inventory()
        yield from (f"job {seen.namespace}/{seen.name}" for seen in there.waves)
        yield from (f"pod {pod.namespace}/{pod.name} {pod.phase}" for pod in there.pods if pod.wave)
        for service in self.cluster.api.ask("list", "/api/v1/services")["items"]:
            labels = service["metadata"].get("labels") or {}
            if any(label.startswith("tidegate.io/") for label in labels):
                yield f"service {service['metadata']['namespace']}/{service['metadata']['name']}"

    def _machine(self, name: str) -> dict[str, object]:
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", manifests.GPU: str(UNITS_A_NODE)}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {LABEL: self.key, "kubernetes.io/hostname": name}},
            "status": {"capacity": room, "allocatable": room},
        }
