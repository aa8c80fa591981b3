"""Django system checks: what would go wrong later, named before anything starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from queues import fleet

# Ours alone, for a process that need not load every page to look at Django's.
TAG = "tidegate"
SHORTEST_SECRET = 32
POSTGRES = frozenset({"postgresql", "postgres"})


@register(TAG)
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


@register(TAG)
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


@register(TAG)
def kubeconfigs(**_: Any) -> list[CheckMessage]:  # noqa: ANN401  Django's signature
    """Refuse a kubeconfig that cannot be read, or that leads nowhere."""
    return [
        Error(
            f"The kubeconfig {path} of cluster {name} {fault}.",
            hint="TIDEGATE_KUBECONFIG is a path, TIDEGATE_CLUSTERS is NAME=PATH pairs with commas between. "
            "Try it: kubectl --kubeconfig PATH get nodes.",
            id="tidegate.E003",
        )
        for name, path in fleet.kubeconfigs(settings.TIDEGATE_CLUSTERS).items()
        if (fault := _fault(Path(path).expanduser()))
    ]


@register(TAG)
def cluster_names(**_: Any) -> list[CheckMessage]:  # noqa: ANN401  Django's signature
    """Refuse two clusters of one name: only one of them would be followed."""
    names = fleet.names(settings.TIDEGATE_CLUSTERS)
    return [
        Error(
            f"TIDEGATE_CLUSTERS names the cluster {name} {names.count(name)} times.",
            hint="Give each a name of its own: NAME=PATH pairs with commas between.",
            id="tidegate.E004",
        )
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _fault(path: Path) -> str:
    """Say what is wrong with a kubeconfig; what its server thinks of it is seen when it is asked."""
    try:
        found = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        return "does not exist"
    except IsADirectoryError:
        return "is a folder"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except yaml.YAMLError:
        return "is not YAML"
    contexts = found.get("contexts") if isinstance(found, dict) else None
    if not isinstance(contexts, list):
        return "is no kubeconfig: it has no list of contexts"
    current = found.get("current-context")
    if not any(isinstance(each, dict) and each.get("name") == current for each in contexts):
        return f"has no context {current!r}, which its current-context names" if current else "has no current-context"
    return ""
