"""What a job asks for: the compact spec that people write, read into one canonical value with every error at once."""

from queues.spec.canonical import runs, to_json
from queues.spec.read import read
from queues.spec.values import (
    API_VERSION,
    Catalog,
    Ceilings,
    FlavorChoice,
    PriorityChoice,
    QueueChoice,
    Run,
    Spec,
    SpecGroup,
    TeamChoice,
    Volume,
)

__all__ = [
    "API_VERSION",
    "Catalog",
    "Ceilings",
    "FlavorChoice",
    "PriorityChoice",
    "QueueChoice",
    "Run",
    "Spec",
    "SpecGroup",
    "TeamChoice",
    "Volume",
    "read",
    "runs",
    "to_json",
]
