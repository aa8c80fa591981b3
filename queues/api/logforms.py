"""The two forms in which a log is told: server-sent events for pages, plain text for everything else."""

import json
from collections.abc import Iterable
from typing import Protocol

from queues.logtext import Line


class Form(Protocol):
    """How lines, notes and ends are written."""

    content_type: str

    def lines(self, lines: Iterable[Line]) -> str:
        """Return lines."""
        ...

    def note(self, code: str, text: str) -> str:
        """Return something that Tidegate says between the lines."""
        ...

    def quiet(self) -> str:
        """Return what shows that the connection lives while nothing comes; "" where there is no such thing."""
        ...

    def end(self, *, ended: bool) -> str:
        """Return that no more comes: the task has ``ended``, or one may ask again for what follows."""
        ...


class Plain:
    """text/plain: what Tidegate says stands in lines that begin with ``[tidegate]``."""

    content_type = "text/plain; charset=utf-8"

    def __init__(self, *, timestamps: bool) -> None:
        """Put the time before each line, or not."""
        self.timestamps = timestamps

    def lines(self, lines: Iterable[Line]) -> str:
        """Return lines."""
        return "".join(f"{line.render(timestamps=self.timestamps)}\n" for line in lines)

    def note(self, code: str, text: str) -> str:
        """Return a line that is not the container's."""
        return f"[tidegate] {text}\n"

    def quiet(self) -> str:
        """Return nothing."""
        return ""

    def end(self, *, ended: bool) -> str:
        """Return nothing."""
        return ""


class Events:
    """text/event-stream: a JSON list of lines a message, whose id is the time of its last; notes and the end by name.

    JSON, because a carriage return in a line would end it.
    """

    content_type = "text/event-stream"

    def __init__(self, *, timestamps: bool) -> None:
        """Put the time before each line, or not."""
        self.timestamps = timestamps

    def lines(self, lines: Iterable[Line]) -> str:
        """Return lines."""
        found = list(lines)
        if not found:
            return ""
        last = next((line.at for line in reversed(found) if line.at), None)
        told = [line.render(timestamps=self.timestamps) for line in found]
        return (f"id: {last}\n" if last else "") + _event("message", told)

    def note(self, code: str, text: str) -> str:
        """Return a note by its code."""
        return _event("note", {"code": code, "text": text})

    def quiet(self) -> str:
        """Return a comment."""
        return ": quiet\n\n"

    def end(self, *, ended: bool) -> str:
        """Return the end."""
        return _event("end", {"ended": ended})


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"
