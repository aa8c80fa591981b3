"""Shapes of bodies and queries: plain serializers that refuse what they do not know."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable


DURATION = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?")
LONGEST_SECONDS = 10**9
LARGEST_MILLI = 10**9


class Shape(serializers.Serializer[Any]):
    """What a body or a query may say. An unknown field is refused with the nearest known name."""

    def to_internal_value(self, data: Any) -> Any:  # noqa: ANN401  DRF's signature
        """Return the checked values, or raise all that is wrong at once."""
        known = [name for name, field in self.fields.items() if not field.read_only]
        unknown = {name: [_unknown(str(name), known)] for name in data if name not in known} if _named(data) else {}
        try:
            value = super().to_internal_value(data)
        except ValidationError as error:
            if not isinstance(error.detail, dict):
                raise
            raise ValidationError({**unknown, **error.detail}) from None
        if unknown:
            raise ValidationError(unknown)
        return value


class Whole(serializers.IntegerField):
    """A whole number: no text, no fraction, no true."""

    def to_internal_value(self, data: Any) -> int:  # noqa: ANN401  DRF's signature
        """Return the number."""
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return super().to_internal_value(data)


class Text(serializers.CharField):
    """Text in a body: a number is refused, not written out."""

    def to_internal_value(self, data: Any) -> str:  # noqa: ANN401  DRF's signature
        """Return the text."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """True or false in a body: no word or number that means it."""

    def to_internal_value(self, data: Any) -> bool:  # noqa: ANN401  DRF's signature
        """Return what was said."""
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Choice(serializers.ChoiceField):
    """One of some words; the refusal names them."""

    def __init__(self, choices: Iterable[str], **kwargs: Any) -> None:  # noqa: ANN401  DRF's options
        """Take the words in the order in which to show them."""
        words = tuple(str(choice) for choice in choices)
        said = ", ".join(repr(word) for word in words)
        super().__init__(
            choices=words, error_messages={"invalid_choice": f"{{input!r}} is not one of {said}."}, **kwargs
        )


@extend_schema_field({"type": "number", "minimum": 0, "multipleOf": 0.001})
class Thousandths(serializers.Field[int, Any, Any, Any]):
    """A number from 0 with up to three decimals, held as a whole number x 1000."""

    default_error_messages: ClassVar = {
        "invalid": "{input!r} is not a number from 0 to 1000000 with up to three decimals."
    }

    def to_internal_value(self, data: Any) -> int:  # noqa: ANN401  DRF's signature
        """Return thousandths."""
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid", input=data)
        milli = Decimal(str(data)) * 1000
        if not 0 <= milli <= LARGEST_MILLI or milli != int(milli):
            self.fail("invalid", input=data)
        return int(milli)

    def to_representation(self, value: int) -> int | float:
        """Return the number as JSON has it: whole where it is whole."""
        return value // 1000 if value % 1000 == 0 else value / 1000


@extend_schema_field({"type": "string", "examples": ["90s", "12h", "1d12h"]})
class Duration(serializers.Field[timedelta, Any, str, Any]):
    """A span such as ``90s``, ``12h`` or ``1d12h``, or a whole number of seconds."""

    default_error_messages: ClassVar = {
        "invalid": "{input!r} is no duration; write 90s, 30m, 12h, 1d12h or a whole number of seconds."
    }

    def to_internal_value(self, data: Any) -> timedelta:  # noqa: ANN401  DRF's signature
        """Return the span."""
        if isinstance(data, int) and not isinstance(data, bool) and 0 <= data <= LONGEST_SECONDS:
            return timedelta(seconds=data)
        found = DURATION.fullmatch(data) if isinstance(data, str) and data else None
        if found is None:
            self.fail("invalid", input=data)
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)

    def to_representation(self, value: timedelta) -> str:
        """Return the span in the same form."""
        return span(value)


def span(value: timedelta) -> str:
    """Return a span as ``1d12h``; parts below a second are dropped."""
    rest = int(value.total_seconds())
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that a wrong one probably means, or ""."""
    return next(iter(get_close_matches(word, list(known), n=1)), "")


def _named(data: object) -> bool:
    return hasattr(data, "keys")


def _unknown(name: str, known: list[str]) -> ErrorDetail:
    meant = nearest(name, known)
    hint = f"Did you mean {meant!r}?" if meant else f"Known are {', '.join(known) or 'none'}."
    return ErrorDetail(f"There is no field {name[:80]!r}. {hint}", code="unknown_field")
