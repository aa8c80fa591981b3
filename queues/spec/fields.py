"""Reading a mapping field by field: each getter gives a value, or notes what is wrong and what is allowed."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, TypeVar

from tenants.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")
MISSING = object()
MOST_SHOWN = 200
MOST_NAMES = 20
MOST_STRANGE = 20
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Section:
    """A mapping inside the spec; ``errors`` is shared by all sections of one spec."""

    def __init__(self, data: Mapping[object, object], pointer: str, errors: list[FieldError]) -> None:
        """Start with no field taken."""
        self.data = data
        self.pointer = pointer
        self.errors = errors
        self._taken: set[object] = set()

    def at(self, *keys: object) -> str:
        """Return the JSON pointer of something inside."""
        return self.pointer + "".join(f"/{escape(key)}" for key in keys)

    def wrong(
        self, key: object, code: str, detail: str, *, given: object = MISSING, allowed: Iterable[object] = ()
    ) -> None:
        """Note an error about a field."""
        shown = None if given is MISSING else show(given)
        pointer = key if isinstance(key, str) and key.startswith("/") else self.at(key)
        self.errors.append(FieldError(pointer=pointer, code=code, detail=detail, given=shown, allowed=tuple(allowed)))

    def take(self, key: str, default: T) -> object | T:
        """Return a field's raw value; null is as good as absent."""
        self._taken.add(key)
        given = self.data.get(key)
        return default if given is None else given

    def has(self, key: str) -> bool:
        """Whether a field is given."""
        return self.data.get(key) is not None

    def section(self, key: str, *, required: bool = False) -> Section:
        """Return a mapping inside, an empty one where it is absent or none."""
        given = self.take(key, MISSING)
        if given is MISSING:
            if required:
                self.wrong(key, "required", f"{key} is needed")
            return Section({}, self.at(key), [] if required else self.errors)
        if not isinstance(given, dict):
            self.wrong(key, "not_a_mapping", f"{key} is a mapping of fields, not {kind(given)}", given=given)
            return Section({}, self.at(key), [])
        return Section(given, self.at(key), self.errors)

    def text(
        self,
        key: str,
        default: str | None = None,
        *,
        most: int = 200,
        form: re.Pattern[str] | None = None,
        says: str = "",
    ) -> str:
        """Return a text; without a default it is needed. ``form`` must match the whole, ``says`` tells it in words."""
        given = self.take(key, MISSING)
        if given is MISSING:
            if default is None:
                self.wrong(key, "required", f"{key} is needed{': ' + says if says else ''}")
            return default or ""
        return self.checked(key, given, most=most, form=form, says=says)

    def checked(
        self,
        key: object,
        given: object,
        *,
        most: int,
        form: re.Pattern[str] | None = None,
        says: str = "",
        empty: bool = False,
    ) -> str:
        """Return a value as a text if it is a sound one of at most ``most`` characters."""
        last = str(key).rsplit("/", 1)[-1]
        if not isinstance(given, str):
            hint = "; write it in quotes" if isinstance(given, int | float | bool) else ""
            self.wrong(key, "not_a_text", f"{last} is a text, not {kind(given)}{hint}", given=given)
            return ""
        if len(given) > most:
            self.wrong(key, "too_long", f"{last} has at most {most} characters, not {len(given)}", given=given)
        elif not given and not empty:
            self.wrong(key, "empty", f"{last} must not be empty", given=given)
        elif unsound(given):
            self.wrong(key, "odd_characters", f"{last} has characters that cannot be stored or shown", given=given)
        elif form is not None and not form.fullmatch(given):
            self.wrong(key, "bad_form", f"{last} is {says}; not {show(given)!r}", given=given)
        else:
            return given
        return ""

    def whole(self, key: str, default: int | None, *, least: int, most: int) -> int:
        """Return a whole number within bounds; without a default it is needed."""
        given = self.take(key, MISSING)
        if given is MISSING:
            if default is None:
                self.wrong(key, "required", f"{key} is needed: a whole number from {least} to {most}")
            return least if default is None else default
        if isinstance(given, bool) or not isinstance(given, int):
            detail = f"{key} is a whole number from {least} to {most}, not {kind(given)}"
            self.wrong(key, "not_a_whole_number", detail, given=given)
        elif not least <= given <= most:
            self.wrong(
                key,
                "out_of_range",
                f"{key} is from {least} to {most}, not {show(given)}",
                given=given,
                allowed=(least, most),
            )
        else:
            return given
        return least

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        given = self.take(key, default)
        if isinstance(given, bool):
            return given
        self.wrong(key, "not_a_flag", f"{key} is true or false, not {kind(given)}", given=given, allowed=(True, False))
        return default

    def parsed(self, key: str, read: Callable[[object], T], default: T, says: str) -> T:
        """Return what ``read`` makes of the value; a ValueError of it is an error that says what would be right."""
        given = self.take(key, MISSING)
        if given is MISSING:
            return default
        try:
            return read(given)
        except (ValueError, OverflowError):
            self.wrong(key, "bad_form", f"{key} is {says}; not {show(given)!r}", given=given)
            return default

    def texts(
        self, key: str, *, most: int, each: int, form: re.Pattern[str] | None = None, says: str = ""
    ) -> tuple[str, ...]:
        """Return a list of texts, at most ``most`` with at most ``each`` characters."""
        given = self.take(key, [])
        if not isinstance(given, list):
            hint = f"; write it as a list: [{show(given)!r}]" if isinstance(given, str) else ""
            self.wrong(key, "not_a_list", f"{key} is a list of texts, not {kind(given)}{hint}", given=given)
            return ()
        if len(given) > most:
            self.wrong(key, "too_many", f"{key} has at most {most} entries, not {len(given)}")
            return ()
        empty = form is None
        return tuple(
            self.checked(self.at(key, place), text, most=each, form=form, says=says, empty=empty)
            for place, text in enumerate(given)
        )

    def pairs(
        self, key: str, *, most: int, each: int, form: re.Pattern[str], says: str, value: re.Pattern[str] | None = None
    ) -> tuple[tuple[str, str], ...]:
        """Return a mapping of texts to texts, sorted by key."""
        given = self.take(key, {})
        if not isinstance(given, dict):
            self.wrong(key, "not_a_mapping", f"{key} is a mapping of texts, not {kind(given)}", given=given)
            return ()
        if len(given) > most:
            self.wrong(key, "too_many", f"{key} has at most {most} entries, not {len(given)}")
            return ()
        rows = []
        for name, text in given.items():
            pointer = self.at(key, name)
            if not isinstance(name, str) or not form.fullmatch(name):
                self.wrong(pointer, "bad_key", f"a key of {key} is {says}; not {show(name)!r}", given=name)
                continue
            words = f"a value of {key}" if value is None else f"a value of {key}: {says}"
            rows.append((name, self.checked(pointer, text, most=each, form=value, says=words, empty=True)))
        return tuple(sorted(rows))

    def close(self, later: Mapping[str, str] | None = None) -> None:
        """Note every field that nobody took; ``later`` are those which a coming release will know."""
        strange = [key for key in self.data if key not in self._taken]
        if len(strange) > MOST_STRANGE:
            more = f"there are {len(strange)} fields here that nobody knows; the first {MOST_STRANGE} are told"
            self.errors.append(FieldError(pointer=self.pointer, code="unknown_field", detail=more))
        for key in strange[:MOST_STRANGE]:
            if isinstance(key, str) and later and key in later:
                self.wrong(key, "not_yet", later[key])
                continue
            name = show(key)
            near = nearest(str(key), [str(known) for known in self._taken])
            hint = f"; did you mean {near}?" if near else ""
            self.wrong(key, "unknown_field", f"there is no field {name}{hint}", allowed=sorted(map(str, self._taken)))


class Named(Protocol):
    """Something that is chosen by name."""

    @property
    def name(self) -> str:
        """Return the name."""
        ...


Choice = TypeVar("Choice", bound=Named)


def choose(
    section: Section, key: str, given: str, choices: Sequence[Choice], *, word: str, where: str = ""
) -> Choice | None:
    """Return the choice of that name, or note which there are."""
    for choice in choices:
        if choice.name == given:
            return choice
    if given:
        names = [choice.name for choice in choices]
        near = nearest(given, names)
        hint = f"did you mean {near}?" if near else f"there is {', '.join(names[:MOST_NAMES]) or 'none'}"
        code = f"unknown_{word.replace(' ', '_').lower()}"
        detail = f"there is no {word} {show(given)}{where}; {hint}"
        section.wrong(key, code, detail, given=given, allowed=names)
    return None


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the known word that looks most like the given one, or nothing."""
    return next(iter(get_close_matches(word[:100], known, n=1)), "")


def escape(key: object) -> str:
    """Return a key as a part of a JSON pointer."""
    return show(key).replace("~", "~0").replace("/", "~1")


def unsound(text: str) -> bool:
    """Whether a text cannot be stored: control characters, or halves of characters."""
    return bool(_CONTROL.search(text)) or any("\ud800" <= letter <= "\udfff" for letter in text)


def show(given: object) -> str:
    """Return what was given, short enough and sound enough to be shown."""
    text = given if isinstance(given, str) else repr(given) if not isinstance(given, bool) else str(given).lower()
    text = text[: MOST_SHOWN + 1]
    if not text.isprintable():
        text = "".join("\ufffd" if unsound(letter) else letter for letter in text)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


def kind(given: object) -> str:
    """Return in words what kind of value it is."""
    match given:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"a {type(given).__name__}"
