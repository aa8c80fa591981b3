"""Tables of who may use how much."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from tenants.allowances import Allowance

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
dns_label = RegexValidator(DNS_LABEL, "Use 1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit.")


class GlobalRole(models.TextChoices):
    """What a person may do everywhere."""

    NONE = "", "no global role"
    AUDITOR = "auditor", "auditor: sees everything, changes nothing"
    ADMIN = "admin", "platform admin: sees and changes everything"


class Role(models.TextChoices):
    """What a person may do in one team and the teams below it."""

    VIEWER = "viewer", "viewer: sees the team's jobs"
    MEMBER = "member", "member: submits jobs and changes own ones"
    LEAD = "lead", "lead: changes the team's jobs, queues and members"


class User(AbstractUser):
    """A person or a service account."""

    global_role = models.CharField(max_length=10, choices=GlobalRole, default=GlobalRole.NONE, blank=True)

    class Meta:
        """Only the known roles."""

        constraints: ClassVar = [
            models.CheckConstraint(name="user_global_role_known", condition=Q(global_role__in=GlobalRole.values))
        ]


class Team(models.Model):
    """A node of the team tree; a team with children is a department and has no jobs of its own.

    ``pod_allowances``: what its pods may beyond what every team's may, set by admins.
    """

    name = models.CharField(max_length=63, unique=True, validators=[dns_label])
    title = models.CharField(max_length=100, blank=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    weight_milli = models.PositiveIntegerField(default=1000)
    per_user_limit = models.PositiveIntegerField(null=True, blank=True)
    pod_allowances = ArrayField(models.CharField(max_length=20), default=list, blank=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        """No team is its own parent (longer cycles are refused by the service under a lock)."""

        constraints: ClassVar = [
            models.CheckConstraint(name="team_not_own_parent", condition=~Q(parent=F("id"))),
            models.CheckConstraint(
                name="team_allowances_known",
                condition=Q(pod_allowances__contained_by=[str(each) for each in Allowance]),
            ),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Membership(models.Model):
    """A person's role in a team."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role)
    created_at = models.DateTimeField()

    class Meta:
        """One role a team."""

        constraints: ClassVar = [
            models.UniqueConstraint(name="membership_once", fields=["user", "team"]),
            models.CheckConstraint(name="membership_role_known", condition=Q(role__in=Role.values)),
        ]

    def __str__(self) -> str:
        """Return who is what where."""
        return f"{self.user_id} {self.role} {self.team_id}"


class Flavor(models.Model):
    """One kind of capacity. Nodes belong to it by ``node_labels`` and by having ``resource``.

    ``installed`` and ``usable`` are the units last seen in the inventory. CPU steps and defaults are thousandths of a
    core, memory bytes.
    """

    name = models.CharField(max_length=63, unique=True, validators=[dns_label])
    title = models.CharField(max_length=100, blank=True)
    resource = models.CharField(max_length=100, default="nvidia.com/gpu")
    value_milli = models.PositiveIntegerField(default=1000)
    node_labels = models.JSONField(default=dict, blank=True)
    tolerations = models.JSONField(default=list, blank=True)
    placement = models.CharField(max_length=10, default="pin")
    spread = models.BooleanField(default=False)
    cpu_step_milli = models.PositiveIntegerField(default=1000)
    memory_step = models.PositiveBigIntegerField(default=2**30)
    default_cpu_milli = models.PositiveIntegerField(default=4000)
    default_memory = models.PositiveBigIntegerField(default=16 * 2**30)
    installed = models.PositiveIntegerField(default=0)
    usable = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        """Values are above zero."""

        constraints: ClassVar = [
            models.CheckConstraint(name="flavor_value_positive", condition=Q(value_milli__gt=0)),
            models.CheckConstraint(name="flavor_placement_known", condition=Q(placement__in=["pin", "prefer", "free"])),
            models.CheckConstraint(name="flavor_steps_positive", condition=Q(cpu_step_milli__gt=0, memory_step__gt=0)),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Quota(models.Model):
    """What a team owns, may borrow and lends on one flavor; a limit of NULL is no limit, 0 is none."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="quotas")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="quotas")
    guaranteed = models.PositiveIntegerField(default=0)
    borrow_limit = models.PositiveIntegerField(null=True, blank=True)
    lend_limit = models.PositiveIntegerField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        """One quota per team and flavor."""

        constraints: ClassVar = [models.UniqueConstraint(name="quota_once", fields=["team", "flavor"])]

    def __str__(self) -> str:
        """Return team, flavor and guarantee."""
        return f"{self.team_id}/{self.flavor_id}: {self.guaranteed}"


class Installation(models.Model):
    """The one row of policy for everything; ``hold_idle_limit`` is in unit-seconds, NULL limits are the rules' own."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    overcommit = models.BooleanField(default=False)
    aging_every = models.DurationField()
    aging_step = models.PositiveSmallIntegerField(default=1)
    aging_cap = models.PositiveSmallIntegerField(default=2)
    restart_cost = models.DurationField(default=timedelta(minutes=10))
    evictions_per_minute = models.PositiveIntegerField(null=True)
    max_evictions = models.PositiveSmallIntegerField(default=3)
    hold_idle_limit = models.BigIntegerField(null=True)
    elastic_pause = models.DurationField(default=timedelta(minutes=10))
    version = models.PositiveIntegerField(default=1)

    class Meta:
        """Exactly one row."""

        constraints: ClassVar = [models.CheckConstraint(name="installation_single", condition=Q(id=1))]

    def __str__(self) -> str:
        """Return what this is."""
        return "installation"


class ApiToken(models.Model):
    """A bearer token: only its SHA-256 is stored; ``prefix`` is what a person may see of it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=20))
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        """Return the visible part."""
        return f"{self.prefix}…"


class AuditEntry(models.Model):
    """One change by a person, or one found in a cluster: who, what, on which thing, from what to what."""

    at = models.DateTimeField()
    actor = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    actor_name = models.CharField(max_length=150)
    action = models.CharField(max_length=60)
    target = models.CharField(max_length=200)
    team = models.ForeignKey(Team, null=True, on_delete=models.SET_NULL, related_name="+")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    comment = models.TextField(blank=True)
    request_id = models.CharField(max_length=64, blank=True)

    class Meta:
        """Read by time, and by team and time."""

        indexes: ClassVar = [
            models.Index(name="audit_by_time", fields=["-at", "-id"]),
            models.Index(name="audit_by_team", fields=["team", "-at", "-id"]),
        ]

    def __str__(self) -> str:
        """Return who did what."""
        return f"{self.actor_name} {self.action} {self.target}"


class IdempotentRequest(models.Model):
    """A POST that carried an Idempotency-Key: its fingerprint, and its answer once there is one."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True)

    class Meta:
        """A key is one person's."""

        constraints: ClassVar = [models.UniqueConstraint(name="idempotent_once", fields=["user", "key"])]
        indexes: ClassVar = [models.Index(name="idempotent_by_age", fields=["created_at"])]

    def __str__(self) -> str:
        """Return the key."""
        return self.key
