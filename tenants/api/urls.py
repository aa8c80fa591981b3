"""The API's addresses of teams, people, quotas and the audit, below /api/v1/."""

from django.urls import path

from tenants.api import me, quotas, teams

urlpatterns = [
    path("me", me.MeView.as_view()),
    path("tokens", me.TokensView.as_view()),
    path("tokens/<int:token_id>", me.TokenView.as_view()),
    path("tokens/<int:token_id>/rotate", me.RotateView.as_view()),
    path("teams", teams.TeamsView.as_view()),
    path("teams/<str:team>:pause", teams.PauseView.as_view()),
    path("teams/<str:team>:resume", teams.ResumeView.as_view()),
    path("teams/<str:team>", teams.TeamView.as_view()),
    path("teams/<str:team>/members", teams.MembersView.as_view()),
    path("teams/<str:team>/members/<str:user>", teams.MemberView.as_view()),
    path("users", teams.UsersView.as_view()),
    path("users/<str:user>", teams.UserView.as_view()),
    path("flavors", quotas.FlavorsView.as_view()),
    path("flavors/<str:flavor>", quotas.FlavorView.as_view()),
    path("quotas", quotas.QuotasView.as_view()),
    path("quotas/<str:team>/<str:flavor>", quotas.QuotaView.as_view()),
    path("quotas/<str:team>/<str:flavor>/history", quotas.QuotaHistoryView.as_view()),
    path("installation", quotas.InstallationView.as_view()),
    path("audit", me.AuditView.as_view()),
]
