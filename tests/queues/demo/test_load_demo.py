from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.utils import timezone

from queues import services
from queues.demo import cast
from queues.demo.pattern import draw, failing, impossible
from queues.management.commands import load_demo
from queues.models import Job, PriorityClass, Queue
from tenants.models import AuditEntry, Flavor, Quota, Team, User
from tenants.permissions import Actor, Permission, can
from tenants.queries import totals

if TYPE_CHECKING:
    from pathlib import Path

    from django.test import Client
    from pytest_django import Settings

pytestmark = pytest.mark.django_db


@pytest.fixture
def logins(tmp_path: Path) -> Path:
    """Load the demo and return the file with its logins."""
    path = tmp_path / "data" / "demo.json"
    call_command("load_demo", logins=path, verbosity=0)
    return path


@pytest.mark.usefixtures("logins")
def test_there_are_three_departments_with_six_teams_and_their_quotas() -> None:
    departments = Team.objects.filter(parent=None)

    assert departments.count() == 3
    assert Team.objects.exclude(parent=None).count() == 6
    assert {(total.flavor, total.guaranteed, total.installed) for total in totals()} == {
        ("h100", 112, 128),
        ("l40s", 28, 32),
    }
    limits = set(Quota.objects.values_list("borrow_limit", flat=True))
    assert {None, 0} < limits
    assert set(PriorityClass.objects.values_list("name", flat=True)) == {"low", "normal", "high", "interactive"}


@pytest.mark.usefixtures("logins")
def test_every_team_has_its_default_queue_and_one_has_a_second() -> None:
    queues = set(Queue.objects.values_list("team__name", "name"))

    assert queues >= {(team.name, "default") for team in cast.teams()} | {("nlp", "nightly")}


def test_everybody_named_can_sign_in_and_is_what_the_file_says(logins: Path) -> None:
    told = json.loads(logins.read_text())
    team = Team.objects.get(name="nlp")

    users = {one["name"]: authenticate(username=one["name"], password=one["password"]) for one in told["logins"]}

    assert set(users) == {login.name for login in cast.LOGINS}
    assert all(users.values())
    admin, lead, viewer = (User.objects.get(username=name) for name in ("admin", "ada", "vera"))
    assert can(admin, Permission.EDIT_INSTALLATION)
    assert can(lead, Permission.EDIT_MEMBERS, team=team)
    assert not can(viewer, Permission.SUBMIT_JOB, team=team)


def test_the_file_is_for_its_owner_alone(logins: Path) -> None:
    assert logins.stat().st_mode & 0o777 == 0o600


def test_tokens_in_the_file_open_the_api(logins: Path, client: Client) -> None:
    token = json.loads(logins.read_text())["tokens"]["bela"]

    answer = client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 200


def test_loading_again_changes_nothing_and_keeps_what_people_changed(logins: Path) -> None:
    Quota.objects.filter(team__name="nlp", flavor__name="h100").update(guaranteed=5)
    before, audit = logins.read_text(), AuditEntry.objects.count()

    call_command("load_demo", logins=logins, verbosity=0)

    assert logins.read_text() == before
    assert AuditEntry.objects.count() == audit
    assert Quota.objects.get(team__name="nlp", flavor__name="h100").guaranteed == 5


def test_a_lost_file_gives_new_logins_that_work(logins: Path) -> None:
    old = json.loads(logins.read_text())
    logins.unlink()

    call_command("load_demo", logins=logins, verbosity=0)

    new = json.loads(logins.read_text())
    assert new["password"] != old["password"]
    assert authenticate(username="ada", password=new["password"])
    assert not authenticate(username="ada", password=old["password"])
    assert set(new["tokens"].values()).isdisjoint(old["tokens"].values())


def test_a_load_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("half way")

    monkeypatch.setattr(load_demo, "load_team", fail)

    with pytest.raises(RuntimeError, match="half way"):
        call_command("load_demo", logins=tmp_path / "demo.json", verbosity=0)

    assert not Flavor.objects.exists()
    assert not User.objects.filter(username="ada").exists()


@pytest.mark.usefixtures("logins")
def test_every_job_that_the_feeder_draws_is_accepted(settings: Settings) -> None:
    settings.TIDEGATE_TEST_ANNOTATIONS = True
    random = Random(12)
    users = {user.username: user for user in User.objects.all()}
    now = timezone.now()

    for job in [impossible(), failing(), *(draw(random, number=number) for number in range(150))]:
        services.submit(spec=job.spec, by=Actor(user=users[job.user]), now=now)

    assert Job.objects.count() == 152
