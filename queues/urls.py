"""Addresses of the portal."""

from django.urls import path, re_path

from queues.live import live
from queues.views.bulk import bulk
from queues.views.decisions import decision, decisions, evictions
from queues.views.job import act, job, rerun
from queues.views.jobs import jobs
from queues.views.new import new
from queues.views.nodes import new_flavor, node, nodes
from queues.views.order import queue, why
from queues.views.overview import overview
from queues.views.teams import member, quota, quota_preview, team, teams

urlpatterns = [
    path("", overview, name="overview"),
    path("live", live, name="live"),
    path("jobs", jobs, name="jobs"),
    path("jobs/new", new, name="job-new"),
    path("jobs/bulk", bulk, name="jobs-bulk"),
    path("jobs/<uuid:uid>", job, name="job"),
    path("jobs/<uuid:uid>/why", why, name="job-why"),
    path("jobs/<uuid:uid>/rerun", rerun, name="job-rerun"),
    re_path(r"^jobs/(?P<uid>[0-9a-f-]{36})/(?P<verb>cancel|hold|release)$", act, name="job-act"),
    path("queue", queue, name="queue"),
    path("teams", teams, name="teams"),
    path("teams/<slug:name>", team, name="team"),
    path("teams/<slug:name>/quota", quota, name="team-quota"),
    path("teams/<slug:name>/quota/preview", quota_preview, name="team-quota-preview"),
    path("teams/<slug:name>/members", member, name="team-member"),
    path("nodes", nodes, name="nodes"),
    path("nodes/<str:cluster>/<str:name>", node, name="node"),
    path("teams/<slug:team>/evictions", evictions, name="team-evictions"),
    path("admin/evictions", evictions, name="evictions"),
    path("admin/flavors", new_flavor, name="flavor-new"),
    path("admin/decisions", decisions, name="decisions"),
    path("admin/decisions/<int:cycle>", decision, name="decision"),
]
