"""HTTP in and out: what a request asks for, and replies as bytes."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import yaml

from clusters.emulator.errors import bad_request, no_such_path, too_large, unsupported_media
from clusters.emulator.kinds import BY_PATH, Kind, Served
from clusters.emulator.shapes import without_nulls
from clusters.emulator.store import Object

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST_BODY = 3 * 1024 * 1024
JSON = "application/json"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def flag(self, name: str) -> bool:
        """Return a query parameter that is true or false."""
        return self.query.get(name, "").lower() in {"true", "1"}

    def number(self, name: str) -> int | None:
        """Return a whole number from the query, None when absent; raise 400."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not _WHOLE.fullmatch(text):
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({name})')
        return int(text)

    @property
    def content_type(self) -> str:
        """Return the media type of the body, without parameters."""
        return self.headers.get("content-type", JSON).partition(";")[0].strip().lower()

    def read(self) -> Any:  # noqa: ANN401 - whatever JSON the client sent
        """Return the body as JSON (YAML where it says so); raise 400 or 415."""
        kind = self.content_type
        if "protobuf" in kind or "cbor" in kind:
            raise unsupported_media(kind)
        try:
            text = self.body.decode()
            return _read_yaml(text) if kind.endswith("yaml") else json.loads(text)
        except (UnicodeDecodeError, ValueError, yaml.YAMLError, RecursionError) as error:
            raise bad_request(f"the object provided is unrecognized (must be of type Object): {error}") from error

    def object(self) -> Object:
        """Return the body as one object without nulls; raise 400."""
        found = self.read()
        if not isinstance(found, dict):
            raise bad_request("the object provided is unrecognized (must be of type Object)")
        if not isinstance(found.get("metadata") or {}, dict):
            raise bad_request("json: cannot unmarshal into Go struct field metadata of type ObjectMeta")
        cleaned: Object = without_nulls(found) if b"null" in self.body else found
        return cleaned


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path names: a kind, and as far as given a namespace, a name and a subresource."""

    kind: Kind
    namespace: str | None = None
    name: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer."""

    body: bytes
    code: int = 200
    content_type: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer that goes on: chunks as they come."""

    chunks: AsyncIterator[bytes]
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def _read_yaml(text: str) -> Any:  # noqa: ANN401 - whatever the client sent
    """Read YAML without aliases, which a few bytes of could blow up to gigabytes."""
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
        raise bad_request("the object provided is unrecognized: aliases are not accepted")
    return yaml.safe_load(text)


def reply(body: object, code: int = 200) -> Reply:
    """Answer with JSON."""
    return Reply(body=json.dumps(body, separators=(",", ":")).encode(), code=code)


async def receive_call(scope: Mapping[str, Any], receive: Receive) -> Call:
    """Read a whole request; raise 413."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST_BODY:
            raise too_large()
        parts.append(part)
        if not message.get("more_body"):
            break
    return Call(
        method=scope["method"],
        path=scope["path"],
        query=dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
        headers={key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]},
        body=b"".join(parts),
    )


def find_target(path: str, served: Served) -> Target:
    """Return what a resource path names among the kinds that are served; raise 404."""
    steps = [step for step in path.split("/") if step]
    match steps:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise no_such_path()
    match rest:
        case ["namespaces", namespace, plural, *more] if (group, version, plural) in BY_PATH:
            kind = BY_PATH[group, version, plural]
            if not kind.namespaced or kind not in served:
                raise no_such_path()
            return _target(kind, namespace, more)
        case [plural, *more] if (group, version, plural) in BY_PATH:
            kind = BY_PATH[group, version, plural]
            if (kind.namespaced and more) or kind not in served:
                raise no_such_path()
            return _target(kind, None if kind.namespaced else "", more)
        case _:
            raise no_such_path()


def _target(kind: Kind, namespace: str | None, more: list[str]) -> Target:
    match more:
        case []:
            return Target(kind=kind, namespace=namespace)
        case [name]:
            return Target(kind=kind, namespace=namespace, name=name)
        case [name, part] if part in kind.subresources:
            return Target(kind=kind, namespace=namespace, name=name, part=part)
        case _:
            raise no_such_path()
