"""Django system checks: what would go wrong later, named before anything starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

SHORTEST_SECRET = 32
POSTGRES = frozenset({"postgresql", "postgres"})


@register()
def secret_key(**_: Any) -> list[CheckMessage]:  # noqa: ANN401  Django's signature
    """Refuse a well-known or short secret key where real people sign in."""
    weak = settings.SECRET_KEY.startswith("insecure") or len(settings.SECRET_KEY) < SHORTEST_SECRET
    if not weak or settings.DEBUG or "PYTEST_VERSION" in os.environ:
        return []
    return [
        Error(
            "TIDEGATE_SECRET_KEY is not set or too short: anybody could forge sessions.",
            hint=f"Set it to at least {SHORTEST_SECRET} random characters, or TIDEGATE_DEBUG=1 on your own machine.",
            id="tidegate.E001",
        )
    ]


@register()
def database_url(**_: Any) -> list[CheckMessage]:  # noqa: ANN401  Django's signature
    """Refuse a database that is not PostgreSQL."""
    scheme = urlsplit(settings.DATABASE_URL).scheme
    if scheme in POSTGRES:
        return []
    return [
        Error(
            f"DATABASE_URL starts with {scheme or 'nothing'!r}: Tidegate runs on PostgreSQL 15 or newer only.",
            hint="Write it as postgresql://user:password@host:5432/name.",
            id="tidegate.E002",
        )
    ]


@register()
def kubeconfigs(**_: Any) -> list[CheckMessage]:  # noqa: ANN401  Django's signature
    """Refuse a kubeconfig that cannot be read."""
    found: list[CheckMessage] = []
    for entry in filter(None, settings.TIDEGATE_CLUSTERS.split(",")):
        path = Path(entry.rpartition("=")[2].strip()).expanduser()
        fault = _unreadable(path)
        if fault:
            found.append(
                Error(
                    f"The kubeconfig {path} {fault}.",
                    hint="TIDEGATE_KUBECONFIG is a path, TIDEGATE_CLUSTERS is NAME=PATH pairs with commas between.",
                    id="tidegate.E003",
                )
            )
    return found


def _unreadable(path: Path) -> str:
    try:
        path.read_bytes()
    except FileNotFoundError:
        return "does not exist"
    except IsADirectoryError:
        return "is a folder"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""
