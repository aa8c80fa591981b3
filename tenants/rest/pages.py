"""Lists in pages: a cursor names the last row seen, so that rows that come and go neither repeat nor get lost."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Q
from rest_framework.response import Response

from tenants.errors import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django.db.models import Model, QuerySet
    from rest_framework.request import Request

    Row = TypeVar("Row", bound=Model)

USUAL, MOST = 50, 500
PARAMS = frozenset({"limit", "cursor", "count"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a page begins: after (or, backwards, before) the row with these values of the order's columns."""

    values: tuple[Any, ...]
    backwards: bool = False

    def text(self) -> str:
        """Return the form that goes into addresses."""
        raw = json.dumps([int(self.backwards), *map(str, self.values)], separators=(",", ":"))
        return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def page(
    request: Request,
    queryset: QuerySet[Row, Row],
    *,
    rows: Callable[[Sequence[Row]], Iterable[Any]],
    order: tuple[str, ...] = ("-id",),
) -> Response:
    """Return one page as ``{items, next, prev, count}``; ``rows`` turns models into what is shown.

    ``order`` ends in a unique column and names indexed columns that are never NULL, ``-`` for falling.
    """
    limit = _limit(request.query_params.get("limit"))
    counting = request.query_params.get("count", "none")
    if counting not in {"none", "exact"}:
        raise Unreadable(f"count={counting[:40]} is not one of none, exact.", code="bad_count")
    cursor = _cursor(request.query_params.get("cursor"), queryset, order)
    backwards = cursor is not None and cursor.backwards
    found = queryset.order_by(*(_turn(key) for key in order) if backwards else order)
    if cursor is not None:
        found = found.filter(_beyond(order, cursor))
    some = list(found[: limit + 1])
    more, some = len(some) > limit, some[:limit]
    if backwards:
        some.reverse()
    later, earlier = (bool(some), more) if backwards else (more, cursor is not None and bool(some))
    return Response(
        {
            "items": list(rows(some)),
            "next": _address(request, some[-1], order, backwards=False) if later else None,
            "prev": _address(request, some[0], order, backwards=True) if earlier else None,
            "count": queryset.order_by().count() if counting == "exact" else None,
        }
    )


def _limit(given: str | None) -> int:
    if given is None:
        return USUAL
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= MOST):
        raise Unreadable(f"limit={given[:40]} is out of range: 1 to {MOST} is allowed.", code="bad_limit")
    return int(given)


def _cursor(given: str | None, queryset: QuerySet[Any, Any], order: tuple[str, ...]) -> Cursor | None:
    if not given:
        return None
    try:
        backwards, *texts = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
        fields = [queryset.model._meta.get_field(key.lstrip("-")) for key in order]  # noqa: SLF001  Django's public way
        values = tuple(field.to_python(text) for field, text in zip(fields, texts, strict=True))
        return Cursor(values=values, backwards=backwards == 1)
    except (ValueError, TypeError, ValidationError, AttributeError, RecursionError):
        raise Unreadable("This cursor is not one of ours: start again without it.", code="bad_cursor") from None


def _turn(key: str) -> str:
    return key[1:] if key.startswith("-") else f"-{key}"


def _beyond(order: tuple[str, ...], cursor: Cursor) -> Q:
    """Return the condition for rows that come after the cursor: first columns equal, the next one beyond."""
    condition, equal = Q(), Q()
    for key, value in zip(order, cursor.values, strict=True):
        falling = key.startswith("-") != cursor.backwards
        name = key.lstrip("-")
        condition |= equal & Q(**{f"{name}__{'lt' if falling else 'gt'}": value})
        equal &= Q(**{name: value})
    return condition


def _address(request: Request, row: Model, order: tuple[str, ...], *, backwards: bool) -> str:
    values = tuple(getattr(row, key.lstrip("-")) for key in order)
    query = request.query_params.copy()
    query["cursor"] = Cursor(values=values, backwards=backwards).text()
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
