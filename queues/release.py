"""The outbox: what clusters have still to be told about waves."""

from collections.abc import Callable, Mapping
from datetime import datetime

from clusters.port import Cluster

Clock = Callable[[], datetime]


def release_due(clock: Clock, *, clusters: Mapping[str, Cluster]) -> int:
    """Tell the clusters what is due and return how many waves were told."""
    raise NotImplementedError
