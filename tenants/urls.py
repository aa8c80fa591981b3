"""Addresses of one's own pages."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from tenants import views

urlpatterns = [
    path("login", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("theme", views.theme, name="theme"),
    path("me/tokens", views.tokens, name="tokens"),
    path("me/tokens/<int:token_id>/revoke", views.revoke, name="token-revoke"),
]
