"""How pages write times, lengths, states and teams; and the fragments that a page and htmx share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from django import template
from django.utils.html import format_html
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.http import QueryDict
    from django.template.context import Context
    from django.utils.safestring import SafeString

    from queues.queries.rows.history import TaskRow
    from queues.queries.rows.lines import OrderRow, QueueOrder
    from queues.queries.rows.machines import ClusterRow, Freshness
    from queues.queries.rows.reasons import Estimate
    from tenants.pages import Parts

register = template.Library()

MINUTE, HOUR, DAY = 60, 3600, 86400
LOOP_LATE_SECONDS, CLUSTER_LATE_SECONDS = 40, 150

STATES = {
    "queued": ("queued", "hourglass", "warn"),
    "held": ("held", "circle-pause", ""),
    "admitted": ("starting", "circle-dashed", "info"),
    "running": ("running", "circle-play", "good"),
    "evicting": ("stopping", "undo-2", "violet"),
    "succeeded": ("succeeded", "circle-check", ""),
    "failed": ("failed", "circle-x", "bad"),
    "cancelled": ("cancelled", "circle-slash", ""),
    "pending": ("starting", "circle-dashed", "info"),
    "leaving": ("stopping", "undo-2", "violet"),
    "stopped": ("stopped", "circle-stop", ""),
    "ended": ("ended", "circle-stop", ""),
    "ready": ("ready", "circle-check", "good"),
    "cordoned": ("cordoned", "ban", "warn"),
    "tainted": ("tainted", "ban", "warn"),
    "not ready": ("not ready", "triangle-alert", "bad"),
    "gone": ("gone", "unplug", "bad"),
    "unknown": ("unknown", "unplug", "warn"),
    "unreachable": ("does not answer", "unplug", "warn"),
    "away": ("does not answer", "unplug", "bad"),
    "retired": ("not configured", "unplug", ""),
}
UNKNOWN = ("circle-dot", "")


def length_text(seconds: float) -> str:
    """Return a length in the two largest units that say something: ``2 h 05 min``, ``3 d 4 h``, ``41 s``."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        minutes = whole % HOUR // MINUTE
        return f"{whole // HOUR} h {minutes:02d} min" if minutes else f"{whole // HOUR} h"
    hours = whole % DAY // HOUR
    return f"{whole // DAY} d {hours} h" if hours else f"{whole // DAY} d"


def time_tag(time: datetime, words: str) -> SafeString:
    """Return words about a time with the exact time behind them."""
    exact = time.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', exact.isoformat(), f"{exact:%Y-%m-%d %H:%M:%S}", words
    )


@register.filter
def lasted(value: timedelta | None) -> str:
    """Return a length of time in words; nothing for none."""
    return "" if value is None else length_text(value.total_seconds())


@register.filter
def ago(time: datetime | None, now: datetime) -> str | SafeString:
    """Return how long ago a time was, or how far off it is."""
    if time is None:
        return ""
    seconds = (now - time).total_seconds()
    if seconds < -1:
        return time_tag(time, _("in %s") % length_text(-seconds))
    return time_tag(time, _("%s ago") % length_text(seconds))


@register.filter
def since(time: datetime | None, now: datetime) -> str | SafeString:
    """Return how long something has lasted."""
    return "" if time is None else time_tag(time, length_text((now - time).total_seconds()))


@register.filter
def expected(estimate: Estimate | None, now: datetime) -> str:
    """Return when a waiting job is expected to start, short: ``in 2 h to 5 h``, ``soon``, ``unknown``."""
    if estimate is None or estimate.p50 is None or estimate.p90 is None:
        return _("unknown")
    early, late = ((at - now).total_seconds() for at in (estimate.p50, estimate.p90))
    if late < MINUTE:
        return _("soon")
    # To the minute: forecasts are no more exact than that, and two ends that look alike are one.
    low, high = (length_text(max(seconds, 0) // MINUTE * MINUTE) for seconds in (early, late))
    if early < MINUTE:
        return _("within %s") % high
    return _("in about %s") % high if low == high else _("in %(low)s to %(high)s") % {"low": low, "high": high}


@register.filter
def clock(time: datetime | None) -> str | SafeString:
    """Return the time of day with seconds; the date stands in the tooltip."""
    return "" if time is None else time_tag(time, f"{time.astimezone(UTC):%H:%M:%S}")


@register.filter
def day(time: datetime | None) -> str | SafeString:
    """Return the date and the minute."""
    return "" if time is None else time_tag(time, f"{time.astimezone(UTC):%Y-%m-%d %H:%M}")


@register.filter
def byte_size(value: int) -> str:
    """Return bytes in the largest binary unit that keeps it above one."""
    size, unit = float(value), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":  # noqa: PLR2004  binary units
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size == int(size) or size >= 10 else f"{size:.1f} {unit}"  # noqa: PLR2004  digits


@register.filter
def cores(milli: int) -> str:
    """Return thousandths of a core as cores."""
    return f"{milli // 1000}" if milli % 1000 == 0 else f"{milli / 1000:.1f}"


@register.filter
def colour(team: str, palette: Mapping[str, str]) -> str:
    """Return a team's colour class; none for a team that the reader does not see."""
    return palette.get(team, "")


@register.inclusion_tag("_partials/state.html")
def state(value: str) -> dict[str, str]:
    """Show a state as icon and word."""
    word, icon, tone = STATES.get(value, (value, *UNKNOWN))
    return {"word": word, "icon": icon, "tone": tone}


@register.simple_tag(takes_context=True)
def part(context: Context, name: str) -> SafeString:
    """Show a fragment of the page in the frame in which it is fetched again."""
    parts: Parts = context["parts"]
    return parts.frame(name, context)


@register.simple_tag(takes_context=True)
def with_params(context: Context, **changes: Any) -> str:  # noqa: ANN401  whatever a template passes
    """Return the page's query string with some parameters changed or (empty) left out; the page position is dropped."""
    params: QueryDict = context["request"].GET.copy()
    for key in ("part", "before", "after"):
        params.pop(key, None)
    for key, value in changes.items():
        params.pop(key, None)
        if value not in ("", None):
            params[key] = str(value)
    return "?" + params.urlencode()


@register.filter
def late(freshness: Freshness, now: datetime) -> str:
    """Return what is out of date, or nothing: the loop runs every 10 s, clusters are listed every minute."""
    if freshness.last_cycle_at is None or (now - freshness.last_cycle_at).total_seconds() > LOOP_LATE_SECONDS:
        last = freshness.last_cycle_at or now
        return _("The admission loop last decided %s ago: nothing starts until it runs again.") % length_text(
            (now - last).total_seconds()
        )
    for cluster in freshness.clusters:
        seen = max(filter(None, (cluster.listed_at, cluster.heard_at)), default=None)
        if cluster.unreachable_since:
            return _("Cluster %(name)s has not answered for %(time)s; what it runs is shown as last seen.") % {
                "name": cluster.name,
                "time": length_text((now - cluster.unreachable_since).total_seconds()),
            }
        if seen is None or (now - seen).total_seconds() > CLUSTER_LATE_SECONDS:
            return _("No news from cluster %s: its numbers may be old.") % cluster.name
    return ""


@register.filter
def heard(cluster: ClusterRow, now: datetime) -> str | SafeString:
    """Return when a cluster was last heard of."""
    return ago(max(filter(None, (cluster.listed_at, cluster.heard_at)), default=None), now)


ICONS = {
    "HELD": "circle-pause",
    "QUEUE_PAUSED": "circle-pause",
    "BACKING_OFF": "timer",
    "USER_LIMIT": "user",
    "TEAM_LIMIT": "users-round",
    "BORROW_LIMIT": "users-round",
    "LEND_LIMIT": "lock",
    "CAPACITY_REDUCED": "triangle-alert",
    "WAITS_TERMINATING": "undo-2",
    "NO_FREE_CAPACITY": "server",
    "FRAGMENTED": "blocks",
    "BEHIND": "list-ordered",
    "EXCEEDS_MAX": "ban",
    "EXCEEDS_NODE": "ban",
    "NO_MATCHING_NODE": "ban",
}


@register.filter
def reason_icon(code: str) -> str:
    """Return the icon of a reason: situations that need different action look different."""
    return ICONS.get(code, "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Rows of the queue up to where the free GPUs end, and the sentence that stands there."""

    rows: tuple[OrderRow, ...]
    line: str = ""


@register.filter
def tide(order: QueueOrder) -> tuple[Reach, ...]:
    """Return the rows that start next and the others, with what the free GPUs are good for in between."""
    first = tuple(takewhile(lambda row: row.starts_next, order.rows))
    rest = order.rows[len(first) :]
    if not rest:
        return (Reach(rows=first),)
    free = _("%s free") % order.free if order.free else _("None free")
    starts = _("up to row %s start next") % (first[-1].rank or len(first)) if first else ""
    following = next((row for row in rest if row.job and row.job.shape == "gang"), None)
    if following is rest[0]:
        needs = _("row %(rank)s needs %(units)s together") % {"rank": following.rank, "units": following.units}
    elif any(row.starts_next for row in rest):
        needs = _("row %s waits for something else") % (rest[0].rank or len(first) + 1)
    else:
        needs = _("no row below starts now")
    line = f"{free}: {'; '.join(filter(None, (starts, needs)))}"
    return (Reach(rows=first, line=line), Reach(rows=rest))


@register.filter
def failed(tasks: Iterable[TaskRow]) -> list[TaskRow]:
    """Return the tasks that failed."""
    return [task for task in tasks if task.state == "failed"]


EVENTS = {
    "submitted": "plus",
    "admitted": "arrow-right",
    "launched": "circle-dashed",
    "running": "circle-play",
    "started": "circle-play",
    "succeeded": "circle-check",
    "failed": "circle-x",
    "cancelled": "circle-slash",
    "held": "circle-pause",
    "released": "circle-play",
    "evicted": "undo-2",
    "evicting": "undo-2",
    "claim_taken_over": "undo-2",
}


@register.filter
def event_icon(kind: str) -> str:
    """Return the icon of a kind of event."""
    return EVENTS.get(kind, "circle-dot")
