"""Verbs about kinds of capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from django.db import transaction

from tenants import checks
from tenants.changes import Change, ChangeKind, made
from tenants.errors import Conflict, Invalid, NotFound
from tenants.models import Flavor
from tenants.permissions import Permission, require

if TYPE_CHECKING:
    from datetime import datetime

    from tenants.permissions import Actor

PLACEMENTS = ("pin", "prefer", "free")
AUDITED = (
    "title", "resource", "value_milli", "node_labels", "tolerations", "placement", "spread",
    "cpu_step_milli", "memory_step", "default_cpu_milli", "default_memory",
)  # fmt: skip
LARGEST = 2**50  # bytes: a petabyte a task is a slip of the pen
POINTERS = {"value_milli": "/value"}
TOLERATION = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})


class FlavorChanges(TypedDict, total=False):
    """What may be said of a flavor; what is left out stays, or has the model's default in a new one."""

    title: str
    resource: str
    value_milli: int
    node_labels: dict[str, str]
    tolerations: list[dict[str, Any]]
    placement: str
    spread: bool
    cpu_step_milli: int
    memory_step: int
    default_cpu_milli: int
    default_memory: int


def create_flavor(
    *,
    by: Actor,
    now: datetime,
    name: str,
    values: FlavorChanges | None = None,
    installed: int = 0,
    comment: str = "",
) -> Flavor:
    """Make a kind of capacity; ``installed`` is what is known before the first inventory (units)."""
    require(by, Permission.EDIT_FLAVOR)
    checks.name(name)
    checks.whole(installed, pointer="/installed")
    fields = _checked(values or {})
    with transaction.atomic():
        row, new = Flavor.objects.get_or_create(
            name=name, defaults={**fields, "created_at": now, "installed": installed, "usable": installed}
        )
        if not new:
            raise Conflict(f"There is already a GPU type {name!r}.", code="name_taken")
        made(
            Change(
                kind=ChangeKind.FLAVOR_CREATED,
                by=by,
                now=now,
                target=name,
                flavor=row,
                after=picture(row),
                comment=comment,
            )
        )
    return row


def update_flavor(*, by: Actor, now: datetime, flavor: str, changes: FlavorChanges, comment: str = "") -> Flavor:
    """Change a kind of capacity; work that runs is not moved."""
    require(by, Permission.EDIT_FLAVOR)
    fields = _checked(changes)
    with transaction.atomic():
        row = Flavor.objects.select_for_update().filter(name=flavor).first()
        if row is None:
            raise NotFound(f"There is no GPU type {flavor[:80]!r}.", code="unknown_flavor")
        before = picture(row)
        for key, value in fields.items():
            setattr(row, key, value)
        row.save(update_fields=[*fields])
        made(
            Change(
                kind=ChangeKind.FLAVOR_UPDATED,
                by=by,
                now=now,
                target=flavor,
                flavor=row,
                before=before,
                after=picture(row),
                comment=comment,
            )
        )
    return row


def picture(flavor: Flavor) -> dict[str, Any]:
    """Return a flavor as the audit shows it."""
    return {key: getattr(flavor, key) for key in AUDITED}


def _checked(values: FlavorChanges) -> dict[str, Any]:
    """Return the values of a flavor's fields after checking each."""
    fields = dict(values)
    for key, least, most in (
        ("value_milli", 1, checks.MOST),
        ("cpu_step_milli", 1, checks.MOST),
        ("memory_step", 1, LARGEST),
        ("default_cpu_milli", 0, checks.MOST),
        ("default_memory", 0, LARGEST),
    ):
        if key in fields:
            checks.whole(fields[key], pointer=POINTERS.get(key, f"/{key}"), least=least, most=most)
    if "title" in values:
        checks.text(values["title"], pointer="/title", longest=100)
    if "resource" in values and not checks.RESOURCE.fullmatch(values["resource"]):
        raise Invalid.field(
            "/resource",
            "This is no name of a Kubernetes resource.",
            code="bad_resource",
            given=values["resource"][:200],
        )
    checks.labels(values.get("node_labels", {}), pointer="/node_labels")
    if "placement" in values:
        checks.one_of(values["placement"], PLACEMENTS, pointer="/placement")
    for index, toleration in enumerate(values.get("tolerations", ())):
        for key in toleration:
            checks.one_of(key, sorted(TOLERATION), pointer=f"/tolerations/{index}/{key}")
    return fields
