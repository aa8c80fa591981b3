"""The clusters of this installation, by name, from its settings."""

from collections.abc import Mapping
from functools import lru_cache

from django.conf import settings

from clusters.budget import Budget
from clusters.port import Cluster

DEFAULT = "default"


def kubeconfigs(text: str) -> dict[str, str]:
    """Read ``NAME=KUBECONFIG,…``; a path alone is the cluster ``default``."""
    pairs = [part.strip() for part in text.split(",") if part.strip()]
    named = [pair.split("=", 1) if "=" in pair else [DEFAULT, pair] for pair in pairs]
    return {name.strip(): path.strip() for name, path in named}


@lru_cache(maxsize=1)
def clusters() -> Mapping[str, Cluster]:
    """Return this process's connections, made once."""
    from clusters.kube import connect  # noqa: PLC0415  its client takes a second to load, and few processes need it

    most = settings.TIDEGATE_REQUESTS_PER_SECOND
    return {
        name: connect(name, kubeconfig=path, budget=Budget(per_second=most, burst=int(2 * most)))
        for name, path in kubeconfigs(settings.TIDEGATE_CLUSTERS).items()
    }
