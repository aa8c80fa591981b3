"""Shapes of bodies and queries: plain serializers that refuse what they do not know."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable


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


class Choice(serializers.ChoiceField):
    """One of some words; the refusal names them."""

    def __init__(self, choices: Iterable[str], **kwargs: Any) -> None:  # noqa: ANN401  DRF's options
        """Take the words in the order in which to show them."""
        words = tuple(str(choice) for choice in choices)
        said = ", ".join(repr(word) for word in words)
        super().__init__(
            choices=words, error_messages={"invalid_choice": f"{{input!r}} is not one of {said}."}, **kwargs
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that a wrong one probably means, or ""."""
    return next(iter(get_close_matches(word, list(known), n=1)), "")


def _named(data: object) -> bool:
    return hasattr(data, "keys")


def _unknown(name: str, known: list[str]) -> ErrorDetail:
    meant = nearest(name, known)
    hint = f"Did you mean {meant!r}?" if meant else f"Known are {', '.join(known) or 'none'}."
    return ErrorDetail(f"There is no field {name[:80]!r}. {hint}", code="unknown_field")
