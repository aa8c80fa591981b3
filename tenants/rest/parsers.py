"""Bodies as plain values, within limits: what is too deep, doubled or odd is refused before anyone looks at it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import IO, TYPE_CHECKING, Any

import yaml
from rest_framework.parsers import BaseParser

from tenants.errors import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEEPEST = 32
# Keys, values and entries in one YAML body: 500 jobs have some 30,000. Reading takes most of a second a 100,000.
MOST_PARTS = 100_000
DIGITS = 18  # any whole number of up to so many digits fits a column or is refused by its field
ODD = re.compile(r"[\x00\ud800-\udfff]")


def read_json(raw: bytes) -> Any:  # noqa: ANN401  any JSON value
    """Return the value of a JSON text, or raise Unreadable with the place of the fault."""
    text = _text(raw)
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise Unreadable(
            f"This is no JSON: {error.msg} at line {error.lineno}, column {error.colno}.", code="bad_json"
        ) from None
    except RecursionError:
        raise _too_deep() from None
    _check(value)
    return value


def read_yaml(raw: bytes) -> Any:  # noqa: ANN401  any YAML value
    """Return the value of one YAML document, or raise Unreadable with the place of the fault.

    Only what JSON can say: no anchors, aliases, tags or second document. Words like ``yes`` and times like ``12:30``
    stay text, as in YAML 1.2.
    """
    text = _text(raw)
    try:
        refuse_tricks(yaml.parse(text, Loader=yaml.CSafeLoader))
        value = yaml.load(text, Loader=PlainLoader)  # noqa: S506  a safe loader with fewer types
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise Unreadable(f"This is no YAML: {error.problem}{place}.", code="bad_yaml") from None
    except yaml.YAMLError as error:
        raise Unreadable(f"This is no YAML: {str(error).splitlines()[0]}.", code="bad_yaml") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Unreadable(f"This is no YAML: {error}.", code="bad_yaml") from None
    _check(value)
    return value


class JsonParser(BaseParser):
    """application/json."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:  # noqa: ANN401  any JSON value
        """Return the body's value."""
        del media_type, parser_context
        return read_json(stream.read())


class YamlParser(BaseParser):
    """application/yaml, and the names that it had before."""

    media_type = "application/yaml"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:  # noqa: ANN401  any YAML value
        """Return the body's value."""
        del media_type, parser_context
        return read_yaml(stream.read())


class TextYamlParser(YamlParser):
    """text/yaml."""

    media_type = "text/yaml"


class OldYamlParser(YamlParser):
    """application/x-yaml."""

    media_type = "application/x-yaml"


class PlainLoader(yaml.CSafeLoader):
    """A safe loader that knows text, whole numbers, fractions, true, false and null, and no doubled keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML's own form

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  PyYAML's signature
        """Return a mapping, refusing doubled keys and keys that are no text."""
        del deep
        seen = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None or name in seen:
                fault = f"the key {name!r} is there twice" if name is not None else "a key must be text"
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
            seen.add(name)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


def _plain(tag: str, pattern: str, first: str) -> None:
    PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


_plain("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_plain("null", r"^(?:~|null|Null|NULL|)$", "~nN")
PlainLoader.yaml_implicit_resolvers[""] = [("tag:yaml.org,2002:null", re.compile(r"^$"))]
_plain("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789")
_plain("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")  # 12e4 may be a commit
PlainLoader.add_constructor("tag:yaml.org,2002:int", lambda _, node: _whole(str(node.value)))
PlainLoader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(node.value))


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"The body is not valid UTF-8 at byte {error.start}.", code="bad_utf8") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise Unreadable(f"The key {twice[:80]!r} is there twice in one object.", code="doubled_key")
    return value


def _no_constant(word: str) -> None:
    raise Unreadable(f"{word} is no JSON value.", code="bad_json")


def _whole(digits: str) -> int:
    if len(digits.lstrip("+-")) > DIGITS:
        raise Unreadable(f"A number with {len(digits)} digits is too long.", code="number_too_long")
    return int(digits)


def refuse_tricks(events: Iterable[yaml.Event]) -> None:
    """Raise Unreadable where YAML has anchors, tags, a second document, or is too deep: before anything is built."""
    depth = documents = parts = 0
    for event in events:
        parts += isinstance(event, yaml.NodeEvent)
        if parts > MOST_PARTS:
            detail = f"This has more than {MOST_PARTS:,} keys and values; send it in parts, or as JSON."
            raise Unreadable(detail, code="too_many_parts")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _refused("Anchors and aliases are not taken; write the value out", event)
        if getattr(event, "tag", None) is not None:
            raise _refused("Tags are not taken", event)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if depth > DEEPEST:
            raise _too_deep()
        if documents > 1:
            raise _refused("Send one document only", event)


def _refused(why: str, event: yaml.Event) -> Unreadable:
    line = f" (line {event.start_mark.line + 1})" if event.start_mark else ""
    return Unreadable(f"{why}{line}.", code="yaml_feature")


def _too_deep() -> Unreadable:
    return Unreadable(f"The body is nested more than {DEEPEST} levels deep.", code="too_deep")


def _check(value: object, depth: int = 1) -> None:
    """Refuse what no column takes: deep nesting, NUL and half characters, numbers without bounds."""
    if depth > DEEPEST and isinstance(value, dict | list):
        raise _too_deep()
    if isinstance(value, str) and ODD.search(value):
        raise Unreadable("A text has a character (NUL or half of a pair) that cannot be stored.", code="bad_character")
    if isinstance(value, float) and not math.isfinite(value):
        raise Unreadable("A number is too large.", code="number_too_long")
    if isinstance(value, dict):
        for key, each in value.items():
            _check(key, depth)
            _check(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check(each, depth + 1)
