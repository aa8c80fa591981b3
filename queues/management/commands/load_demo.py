"""`manage.py load_demo`: the demo's teams, people, quotas and queues, once; the logins go to a file for `make run`."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from queues import services as queues
from queues.demo import cast
from queues.hints import wake
from queues.models import PriorityClass
from tenants import services as tenants
from tenants.models import ApiToken, Role, Team, User
from tenants.permissions import Actor, Scope, system
from tenants.services.tokens import digest

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Collection
    from datetime import datetime

SCOPES = (Scope.JOBS_READ, Scope.JOBS_WRITE, Scope.QUOTA_READ)


class Command(BaseCommand):
    """Load the demo. What somebody has changed since stays as it is."""

    help = "Load the demo's teams, people, quotas and queues; write their logins to a file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file for logins and tokens."""
        parser.add_argument("--logins", type=Path, default=settings.BASE_DIR / ".data" / "demo.json")

    def handle(self, *, logins: Path, **_: object) -> None:
        """Load what is not there, all of it or nothing."""
        now = timezone.now()
        with transaction.atomic():
            if not Team.objects.filter(name=cast.PARTIES[-1].name).exists():
                load(now=now)
        write(logins, logins_and_tokens(read(logins), now=now))
        wake()  # so that the loop's first turn does not wait for the first beat
        self.stdout.write(f"The demo is loaded; logins are in {logins}.")


def load(*, now: datetime) -> None:
    """Make GPU types, priority classes, accounts, teams, quotas and queues."""
    by = system()
    for kind in cast.KINDS:
        values: tenants.FlavorChanges = {
            "title": kind.title,
            "node_labels": {"nvidia.com/gpu.product": kind.product},
            "value_milli": kind.value_milli,
        }
        tenants.create_flavor(by=by, now=now, name=kind.name, values=values, installed=kind.units)
    there = set(PriorityClass.objects.values_list("name", flat=True))
    for name, value, preemptible in cast.CLASSES:
        if name not in there:
            queues.set_priority_class(name=name, value=value, preemptible=preemptible, version=None, by=by, now=now)
    roles = {login.name: login.role for login in cast.LOGINS}
    for name in cast.accounts():
        tenants.create_user(by=by, now=now, username=name, global_role=roles.get(name, ""))
    for party in cast.PARTIES:
        load_team(party, by=by, now=now)
    tenants.set_quotas(
        by=by,
        now=now,
        edits=[
            tenants.QuotaEdit(
                team=party.name,
                flavor=flavor,
                guaranteed=limits.guaranteed,
                borrow_limit=limits.borrow,
                lend_limit=limits.lend,
            )
            for party in cast.PARTIES
            for flavor, limits in party.quotas.items()
        ],
        comment="The demo's quotas",
    )


def load_team(party: cast.Party, *, by: Actor, now: datetime) -> None:
    """Make one team with its people and queues."""
    tenants.create_team(
        by=by,
        now=now,
        name=party.name,
        title=party.title,
        parent=party.above,
        weight_milli=party.weight_milli,
        per_user_limit=party.per_user_limit,
    )
    roles = {party.lead: Role.LEAD, **dict.fromkeys(party.members, Role.MEMBER)}
    roles |= dict.fromkeys(party.viewers, Role.VIEWER)
    for user, role in roles.items():
        if user:
            tenants.set_member(by=by, now=now, team=party.name, user=user, role=role)
    for name in party.queues:
        queues.create_queue(team=party.name, name=name, by=by, now=now)


def logins_and_tokens(told: dict[str, object], *, now: datetime) -> dict[str, object]:
    """Return what the file shall say: what it says already where that still holds, else a new password and tokens."""
    password = str(told.get("password") or speakable())
    users = {user.username: user for user in User.objects.filter(username__in=cast.accounts())}
    set_passwords(users.values(), password=password)
    old = told.get("tokens")
    kept = {str(name): str(secret) for name, secret in old.items()} if isinstance(old, dict) else {}
    alive = set(ApiToken.objects.filter(revoked_at=None).values_list("user__username", "digest"))
    tokens = {
        name: kept[name]
        if name in kept and (name, digest(kept[name])) in alive
        else tenants.create_token(by=Actor(user=users[name]), now=now, name="demo feeder", scopes=SCOPES).secret
        for name in dict.fromkeys((cast.WATCHER, *(person for party in cast.teams() for person in party.people)))
        if name in users
    }
    logins = [{"name": login.name, "password": password, "who": login.who} for login in cast.LOGINS]
    return {"password": password, "logins": logins, "tokens": tokens}


def set_passwords(users: Collection[User], *, password: str) -> None:
    """Give all the same password where they do not have it; they share one hash, since each costs a quarter second."""
    stored = {user.password for user in users if user.has_usable_password()}
    right = {each for each in stored if check_password(password, each)}
    if wrong := [user.pk for user in users if user.password not in right]:
        User.objects.filter(pk__in=wrong).update(password=make_password(password))


def speakable() -> str:
    """Return a password of 50 random bits that can be read aloud."""
    syllables = [secrets.choice("bdfghjklmnprstvz") + secrets.choice("aeiou") for _ in range(8)]
    return "-".join("".join(syllables[at : at + 2]) for at in range(0, 8, 2))


def read(path: Path) -> dict[str, object]:
    """Return what the file says; one that is missing or broken says nothing."""
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def write(path: Path, told: dict[str, object]) -> None:
    """Replace the file, for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(told, file, indent=1)
    new.replace(path)
