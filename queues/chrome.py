"""What the frame around every page needs: navigation and theme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _

from tenants.models import User
from tenants.permissions import Permission, can, leaves_seen

if TYPE_CHECKING:
    from django.http import HttpRequest

THEMES = ("light", "dark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the navigation."""

    title: str
    href: str
    icon: str
    current: bool


def chrome(request: HttpRequest) -> dict[str, Any]:
    """Return the theme, and for people who are signed in the navigation and whether they may submit jobs."""
    theme = request.COOKIES.get("theme", "")
    found: dict[str, Any] = {"theme": theme if theme in THEMES else ""}
    if isinstance(getattr(request, "user", None), User):
        found["navigation"] = navigation(request)
        found["may_submit"] = lambda: bool(leaves_seen(request.user, Permission.SUBMIT_JOB))
    return found


def navigation(request: HttpRequest) -> list[Entry]:
    """Return the pages that this person may open."""
    entries = [
        (_("Overview"), "overview", "gauge"),
        (_("Jobs"), "jobs", "layers"),
        (_("Queue"), "queue", "list-ordered"),
        (_("Teams"), "teams", "users-round"),
        (_("Nodes"), "nodes", "server"),
    ]
    if can(request.user, Permission.VIEW_DECISIONS):
        entries.append((_("Decisions"), "decisions", "activity"))
    links = [(title, reverse(name), icon) for title, name, icon in entries]
    return [Entry(title=title, href=href, icon=icon, current=within(request.path, href)) for title, href, icon in links]


def within(path: str, href: str) -> bool:
    """Return whether a page lies in a section."""
    return path == href if href == "/" else path == href or path.startswith(href.rstrip("/") + "/")
