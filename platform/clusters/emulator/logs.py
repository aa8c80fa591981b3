"""What a pretended pod writes: when it starts, how far it is, how it ends. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from clusters.emulator.clock import after, parse
from clusters.emulator.kubelet import run_for
from clusters.emulator.store import Object

STEPS = 10
_BEAT = 1.0
_MOST_BEATS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line and its time."""

    at: datetime
    text: str

    def render(self, *, timestamps: bool) -> bytes:
        """Write the line as the API server sends it."""
        prefix = self.at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if timestamps else ""
        return f"{prefix}{self.text}\n".encode()


def written(pod: Object, started: datetime, now: datetime) -> list[Line]:
    """Return the lines that the pod has written until now."""
    end = _end(pod)
    # Ends are known to the second only, so the lines of that second count as written.
    return list(_lines(pod, started, after(end[0], 1) if end else now))


def next_at(pod: Object, started: datetime, now: datetime) -> datetime | None:
    """Return when the pod will write its next line, or None when it has ended."""
    if _end(pod):
        return None
    length = run_for(pod)
    beat = _beat(length)
    count = int((now - started).total_seconds() / beat) + 1
    return None if length is not None and count > STEPS else after(started, count * beat)


def _beat(length: float | None) -> float:
    return _BEAT if length is None else max(length / STEPS, 0.001)


def _lines(pod: Object, started: datetime, until: datetime) -> Iterator[Line]:
    """Yield the pod's lines in order, up to a time."""
    metadata, spec = pod["metadata"], pod["spec"]
    image = spec["containers"][0]["image"]
    yield Line(at=started, text=f"start {metadata['name']} on {spec.get('nodeName')} image {image}")
    length = run_for(pod)
    beat, last = _beat(length), started
    for step in range(1, (STEPS if length is not None else _MOST_BEATS) + 1):
        moment = after(started, step * beat)
        if moment > until:
            break
        share = f" {step * 100 // STEPS}%" if length is not None else ""
        last = moment
        yield Line(at=moment, text=f"step {step}{share} loss={4 / (1 + step):.3f}")
    end = _end(pod)
    if end:
        yield Line(at=max(end[0], last), text=f"end exit code {end[1]}")


def _end(pod: Object) -> tuple[datetime, int] | None:
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        end = (container.get("state") or {}).get("terminated")
        if end:
            return parse(end["finishedAt"]), end["exitCode"]
    return None
