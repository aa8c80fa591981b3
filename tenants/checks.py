"""Checks of single values that every service shares: each says which field, what was given and what is allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError

from tenants.errors import Invalid
from tenants.models import dns_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST = 2**31 - 1  # what a column of whole numbers holds
LONGEST_COMMENT = 2000
RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,33}[A-Za-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def name(value: str, *, pointer: str = "/name") -> str:
    """Return a name that Kubernetes takes as a label, or refuse it."""
    try:
        dns_label(value)
    except ValidationError as error:
        raise Invalid.field(
            pointer, f"{value[:80]!r} is no name. {error.message}", code="bad_name", given=value[:200]
        ) from None
    return value


def text(value: str, *, pointer: str, longest: int) -> str:
    """Return printable text of at most ``longest`` characters, or refuse it."""
    if len(value) > longest:
        raise Invalid.field(pointer, f"Use at most {longest} characters; this has {len(value)}.", code="too_long")
    if UNPRINTABLE.search(value):
        raise Invalid.field(pointer, "Control characters are not allowed.", code="bad_character")
    return value


def labels(value: Mapping[str, str], *, pointer: str) -> None:
    """Refuse what Kubernetes does not take as labels."""
    for key, said in value.items():
        for text, form, what in ((key, LABEL_KEY, "key"), (said, LABEL_VALUE, "value")):
            if not form.fullmatch(text):
                detail = f"{text[:80]!r} is no {what} of a Kubernetes label: letters, digits, '-', '_' and '.'"
                raise Invalid.field(pointer, f"{detail}.", code="bad_label", given=text[:200])


def whole(value: object, *, pointer: str, least: int = 0, most: int = MOST) -> int:
    """Return a whole number within bounds, or refuse it; booleans and fractions are no whole numbers."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid.field(pointer, f"{value!r} is not a whole number.", code="not_whole", given=value)
    if not least <= value <= most:
        raise Invalid.field(
            pointer,
            f"{value} is out of range: {least} to {most} is allowed.",
            code="out_of_range",
            given=value,
            allowed=(least, most),
        )
    return value


def limit(value: object, *, pointer: str) -> int | None:
    """Return a limit: a whole number from 0, or None for no limit."""
    return None if value is None else whole(value, pointer=pointer)


def one_of(value: str, allowed: Iterable[str], *, pointer: str) -> str:
    """Return one of the allowed words, or refuse it."""
    words = tuple(allowed)
    if value not in words:
        raise Invalid.field(
            pointer,
            f"{value[:80]!r} is not one of {', '.join(repr(word) for word in words)}.",
            code="not_one_of",
            given=value[:200],
            allowed=words,
        )
    return value
