"""What REST framework says in its own words, said in ours: which field, what is allowed, what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Its words and ours; {0} is the field's name, what the words bracket comes after it.
SAID: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(theirs), ours)
    for theirs, ours in (
        (r"This field is required\.", "{0} is needed."),
        (r"This field may not be null\.", "{0} must not be null; leave it out, or give a value."),
        (r"This field may not be blank\.", "{0} must not be empty."),
        (r"This list may not be empty\.", "{0} has at least one entry."),
        (r"Not a valid string\.", "{0} is a text."),
        (r"A valid integer is required\.", "{0} is a whole number."),
        (r"A valid number is required\.", "{0} is a number."),
        (r"String value too large\.", "{0} is a number with fewer digits."),
        (r"Must be a valid boolean\.", "{0} is true or false."),
        (r"Must be a valid UUID\.", "{0} is an id such as 01a228cf-a398-798c-a8de-8189048a4a8d."),
        (r"Date(?:time)? has wrong format\..*", "{0} is a time such as 2026-11-29T12:00:00Z."),
        (r'Expected a list of items but got type "(.+)"\.', "{0} is a list, not a value of type {1}."),
        (r'Expected a dictionary of items but got type "(.+)"\.', "{0} maps names to values; it is no {1}."),
        (
            r"Invalid data\. Expected a dictionary, but got (.+)\.",
            "{0} is an object of fields, not a value of type {1}.",
        ),
        (r"Ensure this field has no more than (\d+) characters\.", "{0} has at most {1} characters."),
        (r"Ensure this field has at least (\d+) characters\.", "{0} has at least {1} characters."),
        (r"Ensure this field has no more than (\d+) elements\.", "{0} has at most {1} entries."),
        (r"Ensure this field has at least (\d+) elements\.", "{0} has at least {1} entries."),
        (r"Ensure this value is less than or equal to (.+)\.", "{0} is at most {1}."),
        (r"Ensure this value is greater than or equal to (.+)\.", "{0} is at least {1}."),
        (r"Null characters are not allowed\.", "{0} must not have NUL characters."),
    )
)
WHO = "Say who asks: send `Authorization: Bearer tg_…` with a token, which people make under Tokens (/me/tokens)."


def field(said: str, pointer: str) -> str:
    """Return what is wrong with the field at a pointer."""
    name = pointer.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~") or "The body"
    for theirs, ours in SAID:
        found = theirs.fullmatch(said)
        if found is not None:
            return ours.format(name, *found.groups())
    return said


def method(asked: str, allowed: Iterable[str]) -> str:
    """Return that an address is not for a method, and for which it is."""
    return f"{asked} is not for this address; it takes {listed(allowed)}."


def media_type(given: str, read: Iterable[str]) -> str:
    """Return that a body's form is not read, and which are."""
    what = f"A body of type {given[:80]}" if given else "A body without Content-Type"
    return f"{what} is not read here; send {listed(read)} and say so in Content-Type."


def accepted(asked: str, made: Iterable[str]) -> str:
    """Return that no form is made that a client takes, and which are."""
    return f"Accept names {asked[:80]}, which is not made here; this answers {listed(made)}."


def throttled(wait: float | None) -> str:
    """Return that somebody asks too often, and when to go on."""
    return f"Too many requests; go on in {int(wait) + 1} s." if wait else "Too many requests; wait, then go on."


def listed(words: Iterable[str]) -> str:
    """Return words as a list for people."""
    words = list(dict.fromkeys(words))
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "nothing"
