"""What people may read: each query starts from what ``by`` may see and returns frozen rows.

A thing that is not visible is ``NotFound``, as if it did not exist.
"""

from queues.queries.bars import team_bars, team_use
from queues.queries.clusters import clusters
from queues.queries.decisions import decision, decisions
from queues.queries.evictions import evictions
from queues.queries.filters import JobFilter
from queues.queries.history import attempts, events, manifest
from queues.queries.inventory import drift, suggestions
from queues.queries.jobs import count_jobs, job, jobs
from queues.queries.lines import levels, lines_for, priority_classes, queue, queues
from queues.queries.loans import loans
from queues.queries.logs import last_lines, log_choices, log_source, log_source_or_none
from queues.queries.newjob import new_job
from queues.queries.nodes import allocation, node, nodes
from queues.queries.order import explain, queue_order
from queues.queries.overview import freshness, overview
from queues.queries.plan import plan
from queues.queries.preview import preview

__all__ = [
    "JobFilter",
    "allocation",
    "attempts",
    "clusters",
    "count_jobs",
    "decision",
    "decisions",
    "drift",
    "events",
    "evictions",
    "explain",
    "freshness",
    "job",
    "jobs",
    "last_lines",
    "levels",
    "lines_for",
    "loans",
    "log_choices",
    "log_source",
    "log_source_or_none",
    "manifest",
    "new_job",
    "node",
    "nodes",
    "overview",
    "plan",
    "preview",
    "priority_classes",
    "queue",
    "queue_order",
    "queues",
    "suggestions",
    "team_bars",
    "team_use",
]
