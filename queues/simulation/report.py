"""A result as JSON values or as text for people."""

from collections.abc import Iterator

from queues.simulation.run import Result


def as_json(result: Result) -> dict[str, object]:
    """Return the result in the form of the scenario format."""
    return {
        "file": result.scenario.file,
        "name": result.scenario.name,
        "ok": result.ok,
        "failures": result.failures,
        "events": result.events,
        "summary": result.summary,
    }


def as_text(result: Result) -> str:
    """Return a timeline and the failures, one a line."""
    return "\n".join(_lines(result))


def _lines(result: Result) -> Iterator[str]:
    yield f"{'ok  ' if result.ok else 'FAIL'} {result.scenario.file}: {result.scenario.name}"
    for event in result.events:
        rest = {key: value for key, value in event.items() if key not in {"at", "job", "event"}}
        numbers = " ".join(f"{key}={value}" for key, value in rest.items())
        yield f"  {_clock(event['at'])}  {event.get('job', ''):<16} {event['event']} {numbers}".rstrip()
    for failure in result.failures:
        yield f"  FAILED at {_clock(failure['at'])}: expected {failure['expect']}, found {failure['found']}"


def _clock(at: object) -> str:
    if at is None:
        return "       ?"
    seconds = float(str(at))
    return f"{int(seconds // 3600):3d}:{int(seconds // 60 % 60):02d}:{seconds % 60:04.1f}"
