"""The state on disk: each change is appended at once, so that a killed emulator comes back as it was."""

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from clusters.emulator.kinds import EVENTS, KINDS, Kind
from clusters.emulator.store import Change, Store

_BY_NAME = {kind.qualified: kind for kind in KINDS}
_SMALL = 4 * 1024 * 1024
_GROWTH = 4


class StateError(Exception):
    """The state file is in use by another emulator, or holds something else."""


class Journal:
    """Appends what changes to a file, and rewrites the file when most of it is out of date. Events are not kept."""

    def __init__(self, store: Store, path: Path) -> None:
        """Put back into the store what the file tells, then follow the store."""
        self._store = store
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()
        self._load()
        self._written = 0
        self._file: BinaryIO = self._rewrite()
        store.listen(self._heed)

    def __enter__(self) -> Self:
        """Stay open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()
        self._lock.close()

    def _locked(self) -> BinaryIO:
        """Hold a lock that ends with this process; raise StateError where another holds it."""
        lock = self._path.with_name(self._path.name + ".lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise StateError(f"{self._path} is in use by another emulator") from error
        return lock

    def _load(self) -> None:
        """Replay the file; a last line that was cut short by a kill is left out."""
        if not self._path.exists():
            return
        rows: dict[tuple[str, str, str], dict[str, object]] = {}
        with self._path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    self._replay(rows, json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise StateError(f"{self._path} holds no emulator's state") from error
        for (kind, _, _), body in rows.items():
            if kind in _BY_NAME:
                self._store.load(_BY_NAME[kind], body)
        self._store.forget()

    def _replay(self, rows: dict[tuple[str, str, str], dict[str, object]], row: dict[str, Any]) -> None:
        self._store.version = max(self._store.version, row["version"])
        if "kind" in row:
            key = (row["kind"], row["namespace"], row["name"])
            rows.pop(key, None)
            if row["body"] is not None:
                rows[key] = row["body"]

    def _heed(self, change: Change) -> None:
        if change.kind is EVENTS:
            return
        metadata = change.new.body["metadata"]
        body = b"null" if change.deleted else change.new.raw
        line = _line(change.kind, change.number, metadata.get("namespace", ""), metadata["name"], body)
        self._file.write(line)
        self._written += len(line)
        if self._written > self._limit:
            self._file.close()
            self._file = self._rewrite()

    def _rewrite(self) -> BinaryIO:
        """Write the store as it is to a new file in the old one's place, and return it for appending."""
        fresh = self._path.with_suffix(".new")
        size = 0
        with fresh.open("wb") as file:
            size += file.write(json.dumps({"version": self._store.version}).encode() + b"\n")
            for kind in KINDS:
                for version in self._store.versions(kind) if kind is not EVENTS else ():
                    metadata = version.body["metadata"]
                    line = _line(kind, version.number, metadata.get("namespace", ""), metadata["name"], version.raw)
                    size += file.write(line)
        fresh.replace(self._path)
        self._written = size
        self._limit = max(_SMALL, size * _GROWTH)
        # Unbuffered: what an answer promised must outlive a kill of this process.
        return os.fdopen(os.open(self._path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0)


def _line(kind: Kind, number: int, namespace: str, name: str, body: bytes) -> bytes:
    head = json.dumps({"version": number, "kind": kind.qualified, "namespace": namespace, "name": name})
    return head[:-1].encode() + b',"body":' + body + b"}\n"
