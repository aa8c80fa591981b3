"""The clusters of this installation, by name, from its settings."""

from collections.abc import Mapping
from functools import lru_cache

from django.conf import settings

from clusters.budget import Budget
from clusters.port import Cluster

DEFAULT = "default"


def kubeconfigs(text: str) -> dict[str, str]:
    """Read ``NAME=KUBECONFIG,…``; a path alone is the cluster ``default``."""
    return dict(_pairs(text))


def names(text: str) -> list[str]:
    """Return the names in the same, also those that stand there twice."""
    return [name for name, _ in _pairs(text)]


def _pairs(text: str) -> list[tuple[str, str]]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    named = [part.split("=", 1) if "=" in part else [DEFAULT, part] for part in found]
    return [(name.strip(), path.strip()) for name, path in named]


@lru_cache(maxsize=1)
def clusters() -> Mapping[str, Cluster]:
    """Return this process's connections, made once; one whose kubeconfig is bad does not answer until it is good."""
    from clusters.kube import connect  # noqa: PLC0415  its client takes a second to load, and few processes need it

    most = settings.TIDEGATE_REQUESTS_PER_SECOND
    return {
        name: connect(name, kubeconfig=path, budget=Budget(per_second=most, burst=int(2 * most)), later=True)
        for name, path in kubeconfigs(settings.TIDEGATE_CLUSTERS).items()
    }
