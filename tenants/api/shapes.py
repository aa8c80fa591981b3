"""What bodies may say and what answers look like, for everything about teams."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tenants.allowances import Allowance
from tenants.models import GlobalRole, Role
from tenants.permissions import Scope
from tenants.rest.schema import WarningOut
from tenants.rest.shapes import Choice, Duration, Flag, Shape, Text, Thousandths, Whole

Out = serializers.Serializer[Any]


class TokenIn(Shape):
    """A token to make."""

    name = Text(max_length=100)
    scopes = serializers.ListField(child=Choice(Scope), min_length=1, max_length=len(Scope))
    team = Text(required=False, allow_null=True, default=None)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class TokenOut(Out):
    """A token without its secret."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class NewTokenOut(TokenOut):
    """A token with its secret, which is shown this once."""

    token = serializers.CharField(allow_null=True)


class RoleOut(Out):
    """A role in a team."""

    team = serializers.CharField()
    role = serializers.CharField()


class TokenLimitsOut(Out):
    """What the token of this request is limited to."""

    scopes = serializers.ListField(child=serializers.CharField())
    team = serializers.CharField(allow_null=True)


class MeOut(Out):
    """Who asks, and what they may do."""

    username = serializers.CharField()
    email = serializers.CharField()
    global_role = serializers.CharField()
    roles = RoleOut(many=True)
    token = TokenLimitsOut(allow_null=True)


class TeamIn(Shape):
    """A team to make."""

    name = Text(max_length=200)
    title = Text(required=False, allow_blank=True, max_length=100)
    parent = Text(required=False, allow_null=True)  # type: ignore[assignment]  # a field, not DRF's attribute
    weight = Thousandths(required=False, source="weight_milli")
    per_user_limit = Whole(required=False, allow_null=True)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class TeamPatch(Shape):
    """What to change of a team. ``pod_allowances``: what its pods may beyond what every team's may (admins)."""

    title = Text(required=False, allow_blank=True, max_length=100)
    parent = Text(required=False, allow_null=True)  # type: ignore[assignment]  # a field, not DRF's attribute
    weight = Thousandths(required=False, source="weight_milli")
    per_user_limit = Whole(required=False, allow_null=True)
    pod_allowances = serializers.ListField(child=Choice(Allowance), required=False, max_length=len(Allowance))
    comment = Text(required=False, allow_blank=True, max_length=2000)


class TeamOut(Out):
    """A team; parent and children are named where you see them."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # a field, not DRF's attribute
    children = serializers.ListField(child=serializers.CharField())
    weight = Thousandths(source="weight_milli")
    per_user_limit = serializers.IntegerField(allow_null=True)
    pod_allowances = serializers.ListField(child=serializers.CharField())
    paused_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class TeamQuery(Shape):
    """Which teams to list."""

    parent = serializers.CharField(required=False)  # type: ignore[assignment]  # a field, not DRF's attribute


class MemberIn(Shape):
    """The role to give."""

    role = Choice(Role.values)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class MemberOut(Out):
    """A person's role in a team."""

    user = serializers.CharField(source="user.username")
    team = serializers.CharField(source="team.name")
    role = serializers.CharField()
    created_at = serializers.DateTimeField()


class MemberChangedOut(MemberOut):
    """A role as it is now, with warnings."""

    warnings = WarningOut(many=True)


class WarningsOut(Out):
    """Warnings alone."""

    warnings = WarningOut(many=True)


class FlavorPatch(Shape):
    """What to change of a flavor. CPU is in thousandths of a core, memory in bytes."""

    title = Text(required=False, allow_blank=True, max_length=100)
    resource = Text(required=False, max_length=100)
    value = Thousandths(required=False, source="value_milli")
    node_labels = serializers.DictField(required=False, child=Text(allow_blank=True))
    tolerations = serializers.ListField(required=False, child=serializers.DictField())
    placement = Choice(("pin", "prefer", "free"), required=False)
    spread = Flag(required=False)
    cpu_step_milli = Whole(required=False)
    memory_step = Whole(required=False)
    default_cpu_milli = Whole(required=False)
    default_memory = Whole(required=False)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class FlavorIn(FlavorPatch):
    """A flavor to make."""

    name = Text(max_length=200)


class FlavorOut(Out):
    """One kind of capacity, with the units last seen and the sum of guarantees."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField()
    resource = serializers.CharField()
    value = Thousandths(source="value_milli")
    node_labels = serializers.DictField()
    tolerations = serializers.ListField()
    placement = serializers.CharField()
    spread = serializers.BooleanField()
    cpu_step_milli = serializers.IntegerField()
    memory_step = serializers.IntegerField()
    default_cpu_milli = serializers.IntegerField()
    default_memory = serializers.IntegerField()
    installed = serializers.IntegerField()
    usable = serializers.IntegerField()
    guaranteed = serializers.IntegerField()


class QuotaPatch(Shape):
    """What to change of a quota: what is left out stays, null is no limit, 0 is none."""

    guaranteed = Whole(required=False)
    borrow_limit = Whole(required=False, allow_null=True)
    lend_limit = Whole(required=False, allow_null=True)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class QuotaIn(Shape):
    """A quota as it shall be: a limit that is left out is none set (null)."""

    guaranteed = Whole()
    borrow_limit = Whole(required=False, allow_null=True, default=None)
    lend_limit = Whole(required=False, allow_null=True, default=None)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class QuotaOut(Out):
    """What a team owns, may borrow (null: no limit) and lends (null: all) on a flavor; version 0: nobody has set it."""

    team = serializers.CharField()
    flavor = serializers.CharField()
    guaranteed = serializers.IntegerField()
    borrow_limit = serializers.IntegerField(allow_null=True)
    lend_limit = serializers.IntegerField(allow_null=True)
    version = serializers.IntegerField()


class QuotaChangedOut(QuotaOut):
    """A quota as it is now, with warnings."""

    warnings = WarningOut(many=True)


class QuotaQuery(Shape):
    """Which quotas to list."""

    team = serializers.CharField(required=False)
    flavor = serializers.CharField(required=False)


class AuditOut(Out):
    """One change by a person."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor_name")
    action = serializers.CharField()
    target = serializers.CharField()
    team = serializers.CharField(source="team.name", default=None, allow_null=True)
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    comment = serializers.CharField()
    request_id = serializers.CharField()


class AuditQuery(Shape):
    """Which changes to list."""

    team = serializers.CharField(required=False)
    actor = serializers.CharField(required=False)
    action = serializers.CharField(required=False)
    target = serializers.CharField(required=False)
    at__gte = serializers.DateTimeField(required=False)
    at__lt = serializers.DateTimeField(required=False)


class UserPatch(Shape):
    """What to change of an account."""

    email = Text(required=False, allow_blank=True, max_length=254)
    global_role = Choice(GlobalRole.values, required=False)
    is_active = Flag(required=False)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class UserIn(Shape):
    """An account to make; without a password it can only use tokens."""

    username = Text(max_length=150)
    email = Text(required=False, allow_blank=True, max_length=254)
    password = Text(required=False, max_length=200, write_only=True)
    global_role = Choice(GlobalRole.values, required=False)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class UserOut(Out):
    """An account."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField()
    global_role = serializers.CharField()
    is_active = serializers.BooleanField()
    date_joined = serializers.DateTimeField()


class InstallationPatch(Shape):
    """What to change of the policy."""

    overcommit = Flag(required=False)
    aging_every = Duration(required=False)
    aging_step = Whole(required=False)
    aging_cap = Whole(required=False)
    restart_cost = Duration(required=False)
    evictions_per_minute = Whole(required=False, allow_null=True)
    max_evictions = Whole(required=False)
    hold_idle_limit = Whole(required=False, allow_null=True)
    elastic_pause = Duration(required=False)
    comment = Text(required=False, allow_blank=True, max_length=2000)


class InstallationOut(Out):
    """The policy of the whole installation."""

    overcommit = serializers.BooleanField()
    aging_every = Duration()
    aging_step = serializers.IntegerField()
    aging_cap = serializers.IntegerField()
    restart_cost = Duration()
    evictions_per_minute = serializers.IntegerField(allow_null=True)
    max_evictions = serializers.IntegerField()
    hold_idle_limit = serializers.IntegerField(allow_null=True)
    elastic_pause = Duration()
    version = serializers.IntegerField()
    warnings = WarningOut(many=True, required=False)
