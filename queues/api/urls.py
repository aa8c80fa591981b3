"""The API's addresses of jobs, queues and nodes, below /api/v1/."""

from django.urls import path

from queues.api import jobs, lines, logs, nodes, wait

urlpatterns = [
    path("jobs", jobs.JobsView.as_view()),
    path("jobs:batch", jobs.BatchView.as_view()),
    path("jobs:cancel", jobs.CancelManyView.as_view()),
    path("jobs:plan", jobs.PlanView.as_view()),
    path("jobs:count", jobs.CountView.as_view()),
    path("jobs/<uuid:uid>", jobs.JobView.as_view()),
    path("jobs/<uuid:uid>:cancel", jobs.CancelView.as_view()),
    path("jobs/<uuid:uid>:hold", jobs.HoldView.as_view()),
    path("jobs/<uuid:uid>:release", jobs.ReleaseView.as_view()),
    path("jobs/<uuid:uid>:rerun", jobs.RerunView.as_view()),
    path("jobs/<uuid:uid>/checkpoint", jobs.CheckpointView.as_view()),
    path("jobs/<uuid:uid>/explain", jobs.ExplainView.as_view()),
    path("jobs/<uuid:uid>/events", jobs.EventsView.as_view()),
    path("jobs/<uuid:uid>/attempts", jobs.AttemptsView.as_view()),
    path("jobs/<uuid:uid>/manifest", jobs.ManifestView.as_view()),
    path("jobs/<uuid:uid>/logs", logs.LogsView.as_view()),
    path("jobs/<uuid:uid>/wait", wait.WaitView.as_view()),
    path("queue", lines.OrderView.as_view()),
    path("quota-changes/preview", lines.QuotaPreviewView.as_view()),
    path("loans", lines.LoansView.as_view()),
    path("queues", lines.QueuesView.as_view()),
    path("queues/<str:team>/<str:name>", lines.QueueView.as_view()),
    path("priority-classes", lines.PrioritiesView.as_view()),
    path("priority-classes/<str:name>", lines.PriorityView.as_view()),
    path("clusters", nodes.ClustersView.as_view()),
    path("inventory", nodes.InventoryView.as_view()),
    path("nodes", nodes.NodesView.as_view()),
    path("nodes/<str:name>", nodes.NodeView.as_view()),
    path("allocation", nodes.AllocationView.as_view()),
    path("evictions", nodes.EvictionsView.as_view()),
    path("decisions", nodes.DecisionsView.as_view()),
    path("decisions/<int:cycle>", nodes.DecisionView.as_view()),
]
