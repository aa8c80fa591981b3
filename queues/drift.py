"""Machines that begin or cease to differ from what is expected: told in the log and kept in the audit."""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from queues import inventory
from queues.inventory import Drift
from queues.models import Node
from tenants.models import AuditEntry

log = logging.getLogger(__name__)

ACTION = "node.drift"
FINDER = "Tidegate"


def note_drift(rows: Iterable[Node], before: Mapping[str, tuple[Drift, ...]], *, now: datetime) -> None:
    """Record those of these machines whose drift is another one than ``before``, by name."""
    entries = []
    for row in rows:
        was, found = before.get(row.name, ()), inventory.drifts(row)
        if was == found:
            continue
        if new := [kind for kind in found if kind not in was]:
            log.warning("node %s differs from what is expected: %s", row.name, ", ".join(new))
        entries.append(
            AuditEntry(
                at=now,
                actor_name=FINDER,
                action=ACTION,
                target=f"node {row.name}"[:200],
                before={"drift": list(was)},
                after={"drift": list(found), **inventory.numbers(row)},
            )
        )
    AuditEntry.objects.bulk_create(entries, batch_size=500)
