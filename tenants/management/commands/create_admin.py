"""`manage.py create_admin NAME`: an account that may do everything, for the first sign-in."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from tenants.errors import DomainError
from tenants.models import GlobalRole
from tenants.permissions import system
from tenants.services import create_user

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Make a platform admin."""

    help = "Make a platform admin; the password is asked for, or read from standard input where that is no terminal."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the account's name."""
        parser.add_argument("name")
        parser.add_argument("--email", default="")

    def handle(self, *, name: str, email: str, **_: object) -> None:
        """Ask for the password and make the account."""
        password = getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        if not password:
            raise CommandError("An admin needs a password.")
        try:
            create_user(
                by=system(),
                now=timezone.now(),
                username=name,
                email=email,
                password=password,
                global_role=GlobalRole.ADMIN,
            )
        except DomainError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{name} is a platform admin.")
