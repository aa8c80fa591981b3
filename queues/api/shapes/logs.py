"""What is said of logs."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from queues.logtext import Stamp
from tenants.rest.shapes import Shape

MOST_LINES = 10_000


@extend_schema_field({"oneOf": [{"type": "integer", "minimum": 0, "maximum": MOST_LINES}, {"const": "all"}]})
class Tail(serializers.Field[int | None, Any, Any, Any]):
    """A number of lines, or ``all`` (None)."""

    default_error_messages = {"invalid": f"{{input!r}} is neither a number from 0 to {MOST_LINES} nor 'all'."}  # noqa: RUF012  DRF's form

    def to_internal_value(self, data: Any) -> int | None:  # noqa: ANN401  DRF's signature
        """Return the number."""
        text = str(data)
        if text == "all":
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= MOST_LINES):  # noqa: PLR2004  digits
            self.fail("invalid", input=text[:40])
        return int(text)


@extend_schema_field({"type": "string", "format": "date-time"})
class Moment(serializers.Field[Stamp, Any, Any, Any]):
    """A time with its zone, to the nanosecond."""

    default_error_messages = {"invalid": "{input!r} is no time such as 2026-11-29T12:00:00Z."}  # noqa: RUF012  DRF's form

    def to_internal_value(self, data: Any) -> Stamp:  # noqa: ANN401  DRF's signature
        """Return the time."""
        try:
            found = Stamp.read(str(data))
        except ValueError:
            found = None
        if found is None or found[1]:
            self.fail("invalid", input=str(data)[:40])
        return found[0]


class LogQuery(Shape):
    """Whose log (task, attempt, group and wave by number; else the first failed task of the newest attempt), and what.

    ``tail`` counts lines from the end; ``since`` takes what was written after it instead. ``previous`` is the run
    before a container's restart. ``follow`` goes on while the task writes, for up to an hour.
    """

    task = serializers.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    attempt = serializers.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    group = serializers.IntegerField(required=False, min_value=0, max_value=32767)
    wave = serializers.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    container = serializers.RegexField(r"^[a-z0-9-]{0,63}$", required=False, default="", allow_blank=True)
    tail = Tail(required=False, default=500)
    since = Moment(required=False)
    follow = serializers.BooleanField(required=False, default=False)
    previous = serializers.BooleanField(required=False, default=False)
    timestamps = serializers.BooleanField(required=False, default=False)
