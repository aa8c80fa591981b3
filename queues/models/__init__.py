"""Tables of jobs and the loop; one file a noun."""

from queues.models.change import Change
from queues.models.decision import Decision, Spare, Verdict
from queues.models.forecast import Forecast, ForecastScore
from queues.models.job import Job, JobClass, JobEvent, TaskGroup
from queues.models.node import ClusterState, Node
from queues.models.queue import PriorityClass, Queue
from queues.models.recall import Claim, Eviction, Hold, Idle
from queues.models.wave import KeptLog, Task, Wave

__all__ = [
    "Change",
    "Claim",
    "ClusterState",
    "Decision",
    "Eviction",
    "Forecast",
    "ForecastScore",
    "Hold",
    "Idle",
    "Job",
    "JobClass",
    "JobEvent",
    "KeptLog",
    "Node",
    "PriorityClass",
    "Queue",
    "Spare",
    "Task",
    "TaskGroup",
    "Verdict",
    "Wave",
]
