"""Reads YAML field by field and names file, line and field of whatever is wrong."""

import re
from collections.abc import Collection
from pathlib import Path

import yaml

MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
DURATION_PART = re.compile(r"(\d+)(?:\.(\d+))?(ms|[smhd])")
QUANTITY = re.compile(r"(\d+)(?:\.(\d+))?(Ki|Mi|Gi|Ti|Pi|k|K|M|G|T|P)?")
BYTES: dict[str | None, int] = {
    None: 1,
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", start=1)},
    **{letter: 1000**power for power, letter in enumerate("KMGTP", start=1)},
    "k": 1000,
}


MERGE = "tag:yaml.org,2002:merge"
MOST_VALUES = 5_000_000
"""So many values a file may have, those behind aliases counted as often as they are named."""


class ScenarioError(Exception):
    """A scenario file is not valid; the text names file, line and field."""


class Field:
    """One value of the file with its place."""

    def __init__(self, file: str, node: yaml.Node, path: str) -> None:
        """Remember where the value stands."""
        self._file = file
        self._node = node
        self.path = path

    def within(self, node: yaml.Node) -> "Field":
        """Return another value of the same file, named by its line alone."""
        return Field(self._file, node, self.path)

    def wrong(self, message: str) -> ScenarioError:
        """Return the error that names this field."""
        line = self._node.start_mark.line + 1
        return ScenarioError(f"{self._file}:{line}: {self.path or 'file'}: {message}")

    @property
    def line(self) -> int:
        """Return the line on which the value begins."""
        return int(self._node.start_mark.line) + 1

    @property
    def null(self) -> bool:
        """Whether the value is null."""
        return self._node.tag == "tag:yaml.org,2002:null"

    @property
    def is_mapping(self) -> bool:
        """Whether the value has fields."""
        return isinstance(self._node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return isinstance(self._node, yaml.SequenceNode)

    @property
    def is_integer(self) -> bool:
        """Whether the value is a whole number."""
        return isinstance(self._node, yaml.ScalarNode) and self._node.tag == "tag:yaml.org,2002:int"

    def fields(self, allowed: Collection[str] | None = None) -> dict[str, "Field"]:
        """Return the fields of a mapping; an unknown or doubled key is wrong."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.wrong("must be a mapping")
        result: dict[str, Field] = {}
        for key, value in self._pairs(self._node):
            name = str(key.value)
            if key.tag == "tag:yaml.org,2002:bool" and name.lower() == "on":
                name = "on"
            field = Field(self._file, value, f"{self.path}.{name}" if self.path else name)
            if not isinstance(key, yaml.ScalarNode) or (allowed is not None and name not in allowed):
                known = ", ".join(sorted(allowed or ()))
                raise Field(self._file, key, field.path).wrong(f"unknown field; known are: {known}")
            if name in result:
                raise field.wrong("is given twice")
            result[name] = field
        return result

    def _pairs(self, node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
        """Return keys with values; what a merge key brings is left out where the mapping says its own."""
        own = [pair for pair in node.value if pair[0].tag != MERGE]
        said = {str(key.value) for key, _ in own}
        for _, value in (pair for pair in node.value if pair[0].tag == MERGE):
            for other in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(other, yaml.MappingNode):
                    raise self.within(value).wrong("must merge a mapping")
                more = [pair for pair in self._pairs(other) if str(pair[0].value) not in said]
                said |= {str(key.value) for key, _ in more}
                own += more
        return own

    def items(self) -> list["Field"]:
        """Return the items of a list."""
        if not isinstance(self._node, yaml.SequenceNode):
            raise self.wrong("must be a list")
        return [Field(self._file, node, f"{self.path}[{place}]") for place, node in enumerate(self._node.value)]

    def _scalar(self) -> str:
        if not isinstance(self._node, yaml.ScalarNode):
            raise self.wrong("must be a single value")
        said = str(self._node.value)
        if not said.isascii() and any("\ud800" <= letter <= "\udfff" for letter in said):
            raise self.wrong("half of a pair of characters is no text")
        return said

    def text(self) -> str:
        """Return a name or other text; numbers are taken as they are written."""
        value = self._scalar()
        if self.null or not value:
            raise self.wrong("must not be empty")
        return value

    def integer(self, *, least: int | None = None, most: int | None = None) -> int:
        """Return a whole number of at least ``least`` and at most ``most``."""
        value = self._scalar()
        if not self.is_integer or not re.fullmatch(r"[-+]?\d+", value):
            raise self.wrong(f"must be a whole number, not {value!r}")
        number = int(value)
        if least is not None and number < least:
            raise self.wrong(f"must be at least {least}, not {number}")
        if most is not None and number > most:
            raise self.wrong(f"must be at most {most}, not {number}")
        return number

    def limit(self, *, least: int = 0) -> int | None:
        """Return a whole number, or None for null: no limit."""
        return None if self.null else self.integer(least=least)

    def flag(self) -> bool:
        """Return true or false."""
        value = self._scalar()
        if self._node.tag != "tag:yaml.org,2002:bool":
            raise self.wrong(f"must be true or false, not {value!r}")
        return value.lower() in {"true", "yes", "on"}

    def choice(self, allowed: Collection[str]) -> str:
        """Return one of the allowed words."""
        value = self._scalar()
        if value not in allowed:
            raise self.wrong(f"must be one of {', '.join(allowed)}, not {value!r}")
        return value

    def duration(self) -> int:
        """Return a duration such as 90s or 1h30m in milliseconds."""
        value = self._scalar()
        if value == "0":
            return 0
        if not DURATION.fullmatch(value):
            raise self.wrong(f"must be a duration such as 90s, 5m or 1h30m, not {value!r}")
        total = 0
        for whole, part, unit in DURATION_PART.findall(value):
            scale = MILLISECONDS[unit]
            total += int(whole) * scale
            if part:
                total += int(part) * scale // 10 ** len(part)
        return total

    def duration_or_null(self) -> int | None:
        """Return a duration in milliseconds, or None for null."""
        return None if self.null else self.duration()

    def thousandths(self) -> int:
        """Return a decimal number (a weight, a value, cores) x 1000."""
        value = self._scalar()
        match = re.fullmatch(r"(\d+)(?:\.(\d{1,3})0*)?", value)
        if match:
            return int(match[1]) * 1000 + int((match[2] or "").ljust(3, "0"))
        if re.fullmatch(r"\d+m", value):
            return int(value[:-1])
        raise self.wrong(f"must be a number of at most three decimals, not {value!r}")

    def size(self) -> int:
        """Return a quantity such as 64Gi in bytes."""
        value = self._scalar()
        match = QUANTITY.fullmatch(value)
        if not match:
            raise self.wrong(f"must be a quantity such as 64Gi, not {value!r}")
        scale, part = BYTES[match[3]], match[2] or ""
        return int(match[1]) * scale + int(part or 0) * scale // int(10 ** len(part))


def read(path: Path) -> Field:
    """Return the root of a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{path}:1: file: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ScenarioError(f"{path}:{line}: file: is not UTF-8 text") from error
    return parse(text, str(path))


def parse(text: str, file: str) -> Field:
    """Return the root of a YAML text."""
    try:
        node = _composed(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        before = text[: getattr(error, "position", 0)]
        line = mark.line + 1 if mark is not None else before.count("\n") + 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", "cannot be read")
        raise ScenarioError(f"{file}:{line}: file: is not YAML: {problem}") from error
    except RecursionError as error:
        raise ScenarioError(f"{file}:1: file: is nested too deeply") from error
    if node is None:
        raise ScenarioError(f"{file}:1: file: is empty")
    root = Field(file, node, "")
    if _values(root, node, {}) > MOST_VALUES:
        raise root.wrong(f"has more than {MOST_VALUES} values, aliases written out")
    return root


def _composed(text: str) -> yaml.Node | None:
    """Return the nodes of a text; the quick reader finds them, and the one in Python says what is wrong."""
    try:
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return yaml.compose(text, Loader=yaml.SafeLoader)


def _values(root: Field, node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values of a node with aliases written out; one that contains itself is wrong."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = 0
        pairs = isinstance(node, yaml.MappingNode)
        inner = [part for pair in node.value for part in pair] if pairs else node.value
        known[id(node)] = 1 + sum(_values(root, part, known) for part in inner)
    if not known[id(node)]:
        raise root.within(node).wrong("an alias contains itself")
    return known[id(node)]
