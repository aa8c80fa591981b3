"""Machines and clusters as last seen."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from tenants.models import Flavor


class ClusterState(models.Model):
    """One Kubernetes cluster and how fresh our picture of it is.

    ``unreachable_since`` is set while it does not answer: nothing is told to it meanwhile. ``away``: that has lasted,
    so its nodes are not counted on. ``retired_at``: it is not configured any more. ``leader`` is the process that
    follows it, until ``leads_until`` unless it renews its lease.
    """

    name = models.CharField(max_length=63, unique=True)
    kubernetes_version = models.CharField(max_length=60, blank=True)
    listed_at = models.DateTimeField(null=True)
    heard_at = models.DateTimeField(null=True)
    unreachable_since = models.DateTimeField(null=True)
    away = models.BooleanField(default=False)
    retired_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    leader = models.CharField(max_length=200, blank=True)
    leads_until = models.DateTimeField(null=True)

    class Meta:
        """What is away does not answer, and what is retired is away."""

        constraints: ClassVar = [
            models.CheckConstraint(
                name="cluster_away_only_if_unreachable", condition=Q(away=False) | Q(unreachable_since__isnull=False)
            ),
            models.CheckConstraint(
                name="cluster_retired_only_if_away", condition=Q(retired_at__isnull=True) | Q(away=True)
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Node(models.Model):
    """A machine.

    ``units``, ``cpu_milli``, ``memory`` (bytes), ``pods`` are allocatable; ``outside_*`` is used by pods that are not
    ours.

    A node that has left the cluster keeps its row with ``gone_at`` set, since finished tasks name it.
    ``not_ready_since`` is set while it does not answer; ``changed_at`` is when the row last changed.

    ``counted`` has its allocatable GPU resources. ``short``: units that it should have and does not offer. ``rivals``:
    other flavors that match it as well as its own. ``devices``: by driver, what DRA announces. ``conditions``: what
    Kubernetes says is amiss with it.

    ``others`` are pods that are not ours, the largest first, at most ``occupants.SHOWN``. ``over``: units in use beyond
    those that it has. ``recount`` has [wave, units by our rows, units by its pods] where these differ.
    """

    cluster = models.ForeignKey(ClusterState, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=253)
    flavor = models.ForeignKey(Flavor, null=True, on_delete=models.SET_NULL, related_name="nodes")
    units = models.PositiveIntegerField(default=0)
    cpu_milli = models.PositiveBigIntegerField(default=0)
    memory = models.PositiveBigIntegerField(default=0)
    pods = models.PositiveIntegerField(default=110)
    labels = models.JSONField(default=dict)
    taints = models.JSONField(default=list)
    ready = models.BooleanField(default=False)
    cordoned = models.BooleanField(default=False)
    tainted = models.BooleanField(default=False)
    outside_units = models.PositiveIntegerField(default=0)
    outside_cpu_milli = models.PositiveBigIntegerField(default=0)
    outside_memory = models.PositiveBigIntegerField(default=0)
    outside_pods = models.PositiveIntegerField(default=0)
    counted = models.JSONField(default=dict)
    short = models.PositiveIntegerField(default=0)
    rivals = models.PositiveSmallIntegerField(default=0)
    devices = models.JSONField(default=dict)
    conditions = models.JSONField(default=list)
    others = models.JSONField(default=list)
    over = models.PositiveIntegerField(default=0)
    recount = models.JSONField(default=list)
    first_seen_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    not_ready_since = models.DateTimeField(null=True)
    cordoned_since = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        """A name once in a cluster; nodes that are there by flavor."""

        constraints: ClassVar = [models.UniqueConstraint(name="node_name_once", fields=["cluster", "name"])]
        indexes: ClassVar = [
            models.Index(name="node_present", fields=["flavor", "id"], condition=Q(gone_at__isnull=True))
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    @property
    def usable(self) -> bool:
        """Whether new tasks may come: there, ready, not cordoned, and no taint that the flavor does not tolerate."""
        return self.gone_at is None and self.ready and not self.cordoned and not self.tainted
