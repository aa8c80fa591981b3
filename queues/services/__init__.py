"""All that a person can do to jobs and queues: one function a verb, ``by`` whom, at ``now``.

Each is one transaction: permission, guarded change, event, audit entry; the loop and pages are told on commit.
"""

from queues.services.lines import QueuePolicy, change_queue, create_queue, set_priority_class
from queues.services.many import ManyDone, Result, cancel_many, hold_many
from queues.services.moving import cancel, change, change_labels, change_max_tasks, change_priority, hold, release
from queues.services.saving import Saved, report_checkpoint
from queues.services.submitting import MOST_AT_ONCE, IfExists, Submitted, rerun, submit, submit_batch

__all__ = [
    "MOST_AT_ONCE",
    "IfExists",
    "ManyDone",
    "QueuePolicy",
    "Result",
    "Saved",
    "Submitted",
    "cancel",
    "cancel_many",
    "change",
    "change_labels",
    "change_max_tasks",
    "change_priority",
    "change_queue",
    "create_queue",
    "hold",
    "hold_many",
    "release",
    "report_checkpoint",
    "rerun",
    "set_priority_class",
    "submit",
    "submit_batch",
]
