import io

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command

from tenants.models import User
from tenants.permissions import Permission, can

pytestmark = pytest.mark.django_db


def test_the_first_admin_signs_in_and_may_do_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a long enough pass phrase\n"))

    call_command("create_admin", "root", verbosity=0)

    assert authenticate(username="root", password="a long enough pass phrase")  # noqa: S106  the one just given
    assert can(User.objects.get(username="root"), Permission.EDIT_INSTALLATION)


def test_a_name_that_is_taken_and_an_empty_password_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.create(username="root")
    monkeypatch.setattr("sys.stdin", io.StringIO("a long enough pass phrase\n"))

    with pytest.raises(CommandError, match="already an account 'root'"):
        call_command("create_admin", "root")
    with pytest.raises(CommandError, match="needs a password"):
        call_command("create_admin", "other")
