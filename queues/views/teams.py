"""Teams: what each is guaranteed, borrows and lends, who is in it, and the edits of leads and admins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from queues import queries
from queues.stopwatch import within
from queues.views.drawing import bar_groups, loan_bars
from tenants import queries as tenants
from tenants import services
from tenants.errors import DomainError, NotFound, Stale
from tenants.models import Role
from tenants.pages import Part, change, page, palette, signed_in, with_typed
from tenants.permissions import Permission, actor_of, can, teams_seen
from tenants.services import QuotaEdit

PREVIEW_SECONDS = 3.0
QUOTA_FIELDS = ("flavor", "guaranteed", "borrow_limit", "lend_limit")

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

    from queues.queries.rows.shares import TeamBar
    from tenants.permissions import Actor
    from tenants.queries import QuotaRow


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaField:
    """A number of a quota in its form: as it is shown, and as it is ``now`` where something else was typed."""

    shown: str
    now: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFields:
    """A quota as its form shows it: what was typed and refused, else what is there."""

    row: QuotaRow
    guaranteed: QuotaField
    borrow_limit: QuotaField
    lend_limit: QuotaField

    @classmethod
    def of(cls, row: QuotaRow, typed: Mapping[str, str]) -> QuotaFields:
        """Return the fields of a quota; ``typed`` are those of the form that was refused, if it was this one."""

        def field(name: str, empty: str) -> QuotaField:
            value = getattr(row, name)
            shown = "" if value is None else str(value)
            given = typed.get(name, shown) if typed.get("flavor") == row.flavor else shown
            return QuotaField(shown=given, now=None if given == shown else shown or empty)

        limits = {"borrow_limit": field("borrow_limit", "no limit"), "lend_limit": field("lend_limit", "all of it")}
        return cls(row=row, guaranteed=field("guaranteed", "0"), **limits)


@require_safe
@signed_in
def teams(request: HttpRequest) -> HttpResponse:
    """Show the tree of teams that one may see, with their bars on each GPU type."""
    by, now = actor_of(request), timezone.now()
    parts = {
        "tree": Part(template="_partials/teams.html", rows=lambda: tree(by), topics=("jobs", "teams")),
    }
    return page(request, "portal/teams.html", {"now": now}, parts)


def tree(by: Actor) -> dict[str, object]:
    """Return the teams in the order of the tree, each with its lines."""
    lines: dict[str, list[TeamBar]] = {}
    for line in queries.team_bars(by, now=timezone.now()):
        lines.setdefault(line.team, []).append(line)
    rows = {row.name: row for row in tenants.team_rows(teams_seen(by), by=by)}
    order: list[tuple[int, str]] = []

    def walk(name: str, depth: int) -> None:
        order.append((depth, name))
        for child in rows[name].children:
            walk(child, depth + 1)

    for name, row in rows.items():
        if row.parent is None:
            walk(name, 0)
    bars = {
        bar.row: bar for group in bar_groups([each for rows in lines.values() for each in rows]) for bar in group.bars
    }
    found = [(depth, rows[name], [bars[line] for line in lines.get(name, [])]) for depth, name in order]
    return {"teams": found, "palette": palette(by)}


@require_safe
@signed_in
def team(request: HttpRequest, name: str) -> HttpResponse:
    """Show one team: quota, queues, members."""
    by, now = actor_of(request), timezone.now()
    found = tenants.team(name, by=by)
    lines = tenants.quota_lines(found)
    use, colours = cache(lambda: queries.team_use(by, name)), palette(by)
    parts = {
        "bars": Part(
            template="_partials/bars.html",
            rows=lambda: {"groups": bar_groups(use()[0]), "palette": colours},
            topics=("jobs", f"team:{name}"),
        ),
        "loans": Part(
            template="_partials/loans.html",
            rows=lambda: {"loans": [loan_bars(row, colours) for row in use()[1]], "palette": colours},
            topics=("jobs", f"team:{name}"),
        ),
    }
    context = {
        "now": now,
        "team": tenants.team_rows([found], by=by)[0],
        "quotas": [QuotaFields.of(row, request.GET) for row, _ in lines],
        "totals": {total.flavor: total for _, total in lines},
        "members": [(row.user.username, row.user.get_full_name(), row.role) for row in tenants.members(found)],
        "queues": queries.queues(by, team=name),
        "roles": Role.choices,
        "typed_user": request.GET.get("user", ""),
        "typed_role": request.GET.get("role", Role.MEMBER.value),
        "may_quota": can(by, Permission.EDIT_QUOTA, team=found),
        "may_members": can(by, Permission.EDIT_MEMBERS, team=found),
        "palette": colours,
    }
    return page(request, "portal/team.html", context, parts)


@require_POST
@signed_in
def quota(request: HttpRequest, name: str) -> HttpResponse:
    """Set a team's quota on one GPU type; an edit of an older version says what is there now."""
    by, flavor = actor_of(request), request.POST.get("flavor", "")
    tenants.team(name, by=by)
    back = f"{reverse('team', args=[name])}#quota-title"
    try:
        edit = quota_edit(request, name)
    except ValueError as error:
        messages.error(request, f"Nothing was changed: {error}.")
        return HttpResponseRedirect(with_typed(request, back, QUOTA_FIELDS))
    try:
        done = services.set_quotas(by=by, now=timezone.now(), edits=[edit], comment=request.POST.get("comment", ""))
    except NotFound:
        raise
    except Stale as error:
        messages.error(request, f"{error.detail} Look at the values below, then change them again.")
    except DomainError as error:
        messages.error(request, f"Nothing was changed: {error.detail}")
    else:
        messages.success(request, f"{flavor} of {name} is set.")
        for notice in done.notices:
            messages.warning(request, notice.detail)
        return HttpResponseRedirect(back)
    return HttpResponseRedirect(with_typed(request, back, QUOTA_FIELDS))


@require_POST
@signed_in
def quota_preview(request: HttpRequest, name: str) -> HttpResponse:
    """Show what an edit of a team's quota would change, before it is made."""
    by, now = actor_of(request), timezone.now()
    tenants.team(name, by=by)
    back = f"{reverse('team', args=[name])}#quota-title"
    try:
        edit = quota_edit(request, name)
        found = queries.preview(by, [edit], now=now, go_on=within(PREVIEW_SECONDS))
    except NotFound:
        raise
    except (ValueError, DomainError) as error:
        words = error.detail if isinstance(error, DomainError) else f"{error}."
        messages.error(request, f"Nothing would be changed: {words}")
        return HttpResponseRedirect(with_typed(request, back, QUOTA_FIELDS))
    context = {"now": now, "team": name, "edit": edit, "preview": found, "palette": palette(by)}
    return page(request, "portal/quota_preview.html", context)


def quota_edit(request: HttpRequest, team: str) -> QuotaEdit:
    """Return what the form asks for. Raises ValueError in words."""
    guaranteed = whole(request, "guaranteed")
    if guaranteed is None:
        raise ValueError("guaranteed is a whole number from 0 up, and it is empty; 0 guarantees nothing")
    return QuotaEdit(
        team=team,
        flavor=request.POST.get("flavor", ""),
        guaranteed=guaranteed,
        borrow_limit=whole(request, "borrow_limit"),
        lend_limit=whole(request, "lend_limit"),
        version=whole(request, "version"),
    )


def whole(request: HttpRequest, key: str) -> int | None:
    """Return a whole number from a form, None for an empty field. Raises ValueError in words."""
    words = request.POST.get(key, "").strip()
    if not words:
        return None
    if not words.isascii() or not words.isdecimal() or len(words) > 9:  # noqa: PLR2004  fits a column
        label, empty = key.replace("_", " "), ", or empty for no limit" if key.endswith("_limit") else ""
        raise ValueError(f"{label} is a whole number from 0 up{empty}; not {words[:40]!r}")
    return int(words)


@require_POST
@signed_in
def member(request: HttpRequest, name: str) -> HttpResponse:
    """Give a person a role in a team, or take it away."""
    user, role = request.POST.get("user", "").strip(), request.POST.get("role", "")
    back = f"{reverse('team', args=[name])}#members-title"
    now = timezone.now()
    if role == "remove":
        return change(
            request,
            lambda by: services.remove_member(by=by, now=now, team=name, user=user),
            f"{user} is no longer in {name}.",
            back=back,
        )
    return change(
        request,
        lambda by: services.set_member(by=by, now=now, team=name, user=user, role=role),
        f"{user} is {role} of {name}.",
        back=back,
        typed=("user", "role"),
    )
