"""The view that all of the API's addresses are made of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from django.utils import timezone
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.errors import Invalid, NotAuthenticated, TooLarge, Unreadable
from tenants.models import User
from tenants.permissions import Actor, actor_of
from tenants.rest import etags, once, pages
from tenants.rest.shapes import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet
    from rest_framework.request import Request

    from tenants.errors import Notice
    from tenants.rest.shapes import Shape

MIB = 2**20


class RestView(APIView):
    """Reads the clock once, keeps bodies within ``body_limit`` bytes, and runs a POST with Idempotency-Key once.

    A subclass's method translates, calls one service or query, and translates back.
    """

    body_limit: ClassVar[int] = MIB
    shown_once: ClassVar[tuple[str, ...]] = ()  # fields of a POST's answer that must not be stored
    now: datetime

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  DRF's signature
        """Check who asks and how much, before any method runs."""
        self.now = timezone.now()
        check_size(request, limit=self.body_limit)
        super().initial(request, *args, **kwargs)
        handler = getattr(self, "post", None)
        if request.method == "POST" and "Idempotency-Key" in request.headers and handler is not None:
            setattr(self, "post", partial(self._once, handler))  # noqa: B010  DRF looks the method up after this

    def _once(self, handler: Callable[..., Response], request: Request, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  DRF's signature
        work = partial(handler, request, *args, **kwargs)
        return once.once(request, work, now=self.now, secrets=self.shown_once)

    @property
    def actor(self) -> Actor:
        """Return who asks."""
        return actor_of(self.request)

    def known_actor(self) -> Actor:
        """Return who asks, or raise NotAuthenticated: for views that let some strangers in."""
        if not isinstance(self.request.user, User):
            raise NotAuthenticated("Send a token that may see this.", code="token_missing")
        return self.actor

    def body(self, shape: type[Shape], *, partial: bool = False) -> dict[str, Any]:
        """Return the body's values after checking their shape; ``partial`` lets fields be left out (PATCH)."""
        if not isinstance(self.request.data, dict):
            kind = type(self.request.data).__name__
            raise Invalid.field("", f"The body must be an object; this is a {kind}.", code="not_an_object")
        read = shape(data=self.request.data, partial=partial)
        read.is_valid(raise_exception=True)
        return dict(read.validated_data)

    def query(self, shape: type[Shape] | None = None) -> dict[str, Any]:
        """Return the query's values after checking their shape; those of paging are known everywhere."""
        given = {name: value for name, value in self.request.query_params.items() if name not in pages.PARAMS}
        if shape is None:
            refuse_unknown(given, known=())
            return {}
        read = shape(data=given)
        refuse_unknown(given, known=read.fields)
        read.is_valid(raise_exception=True)
        return dict(read.validated_data)

    def page(
        self,
        queryset: QuerySet[Any, Any],
        *,
        rows: Callable[[Sequence[Any]], Iterable[Any]],
        order: tuple[str, ...] = ("-id",),
    ) -> Response:
        """Return one page of a list; see tenants.rest.pages."""
        return pages.page(self.request, queryset, rows=rows, order=order)

    def wanted_version(self) -> int | None:
        """Return the version that If-Match names; 428 without the header."""
        return etags.wanted_version(self.request)

    def answer(
        self,
        data: Mapping[str, Any],
        *,
        status: int = 200,
        version: int | None = None,
        notices: Iterable[Notice] | None = None,
    ) -> Response:
        """Return an answer with its ETag, and with ``warnings`` where the verb can give some."""
        if notices is not None:
            data = {**data, "warnings": [{"code": each.code, "detail": each.detail} for each in notices]}
        headers = {"ETag": etags.etag(version)} if version is not None else None
        return Response(data, status=status, headers=headers)

    def made(self, data: Mapping[str, Any], *, at: str, version: int | None = None) -> Response:
        """Return the 201 of something new, with its address below /api/v1/."""
        response = self.answer(data, status=201, version=version)
        response["Location"] = f"/api/v1/{quote(at)}"
        return response


def check_size(request: Request, *, limit: int) -> None:
    """Refuse a body above ``limit`` bytes, before it is read where its length is announced."""
    announced = str(request.META.get("CONTENT_LENGTH") or "0")
    size = int(announced) if announced.isdigit() else 0
    if size <= limit:
        size = len(request._request.body)  # noqa: SLF001  the bytes before parsing
    if size > limit:
        raise TooLarge(f"The body has {size} bytes; at most {limit} are read here. Send it in parts.")


def refuse_unknown(given: Iterable[str], *, known: Iterable[str]) -> None:
    """Refuse a query parameter that nobody reads: a misspelt filter must not list everything."""
    names = {*known, *pages.PARAMS}
    for name in given:
        if name not in names:
            meant = nearest(name, names)
            hint = f"Did you mean {meant!r}?" if meant else f"Known are {', '.join(sorted(names))}."
            raise Unreadable(f"There is no parameter {name[:80]!r}. {hint}", code="unknown_parameter")
