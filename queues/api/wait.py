"""Waiting for a job: the one address that takes its time. It holds neither a thread nor a connection meanwhile."""

import asyncio
import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from queues import queries
from queues.api.patient import dress, look_once
from queues.api.shapes import jobs as shapes
from queues.states import ENDED, JobState
from tenants.rest.views import RestView

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 2.0
NOT_YET = 204

REACHED = {"running": frozenset({JobState.RUNNING}) | ENDED, "terminal": ENDED}


class WaitView(RestView):
    """/jobs/{id}/wait. ``get`` looks once; the view that is served looks again and again, and rests in between."""

    @extend_schema(
        operation_id="waitForJob", parameters=[shapes.WaitQuery], responses={200: shapes.JobDetailOut, 204: None}
    )
    def get(self, request: Request, uid: UUID) -> Response:
        """Answer with the job when it runs or has ended, or with 204 when that took too long."""
        until = self.query(shapes.WaitQuery)["until"]
        detail = queries.job(self.actor, uid, now=self.now, position=False)
        if JobState(detail.row.state) in REACHED[until]:
            return self.answer(shapes.JobDetailOut.show(detail))
        return Response(status=NOT_YET)

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:  # noqa: ANN401  DRF's signature, asynchronous
        """Return the asynchronous view around the one that looks once."""
        look = super().as_view(**initkwargs)

        async def wait(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:  # noqa: ANN401  what the address names
            ends = time.monotonic() + _seconds(request)
            pause = FIRST_PAUSE
            while True:
                response = await look_once(look, request, **kwargs)
                left = ends - time.monotonic()
                if response.status_code != NOT_YET or left <= 0:
                    return response
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, LONGEST_PAUSE)

        return dress(wait, cls, initkwargs)


def _seconds(request: HttpRequest) -> int:
    """Return how long to wait; what is no such number is refused by the first look."""
    text = request.GET.get("timeout", "60")
    return min(int(text), 60) if text.isascii() and text.isdigit() and len(text) < 4 else 0  # noqa: PLR2004
