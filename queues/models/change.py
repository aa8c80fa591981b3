"""What changed of what the loop reads: noted by the database itself, whoever writes.

Statement triggers on jobs, waves, tasks and nodes note ids together with the number of the transaction. A reader that
knows the snapshot that it saw last finds what has been committed since: what its last snapshot could not see yet. So a
transaction that commits late, with a number long past, is found as well, and nobody has to tell that he wrote.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Change(models.Model):
    """Something changed in transaction ``xact``: of a ``kind``, the row ``of``.

    A ``mark`` notes below which number all transactions had ended at ``at``: what is older may go when readers have
    gone on.
    """

    class Kind(models.TextChoices):
        """A class whose waiting jobs changed, a job that may have waves, a wave or its tasks, a node."""

        CLASS = "class"
        JOB = "job"
        WAVE = "wave"
        NODE = "node"
        MARK = "mark"

    xact = models.BigIntegerField()
    kind = models.CharField(max_length=5, choices=Kind)
    of = models.BigIntegerField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        """Read by transaction."""

        indexes: ClassVar = [models.Index(name="change_by_transaction", fields=["xact"])]

    def __str__(self) -> str:
        """Return kind and id."""
        return f"{self.kind} {self.of}"
