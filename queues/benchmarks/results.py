"""What a benchmark finds, as lines for people and as JSON lines."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

WHOLE = 1000
"""Values from here on are printed without decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measured value; ``peer`` and ``limit`` are what it is read against, with their source."""

    name: str
    value: float
    unit: str
    peer: str = "-"
    limit: str = "-"
    target: str = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a benchmark may use: the folder of traces, a seed, and how much of its workload it should take.

    ``part`` is a divisor of the workload: 1 is the published one; tests take a small piece. ``tick`` is how many
    milliseconds lie between two decisions where a benchmark has a clock.
    """

    data: Path | None
    seed: int
    part: int = 1
    tick: int = 1000

    def trace(self, name: str) -> Path:
        """Return a trace's path; without a folder of traces there is none to read."""
        if self.data is None or not (self.data / name).exists():
            raise NoTrace(f"needs {name}: name the folder of traces with --data")
        return self.data / name


class NoTrace(Exception):
    """The folder of traces lacks what a benchmark reads."""


def as_text(row: Result, *, seed: int, commit: str) -> str:
    """Return one line for people."""
    value = f"{row.value:,.4g}" if abs(row.value) < WHOLE else f"{row.value:,.0f}"
    return f"{row.name} {value} {row.unit} | peer {row.peer} | limit {row.limit} | seed {seed} | {commit}"


def as_json(row: Result, *, seed: int, commit: str) -> str:
    """Return one JSON line."""
    return json.dumps(asdict(row) | {"seed": seed, "commit": commit})


def commit(root: Path) -> str:
    """Return the short hash of the commit that is checked out, read from git's own files (of a worktree too)."""
    git = root / ".git"
    try:
        if git.is_file():
            git = root / git.read_text().strip().removeprefix("gitdir: ")
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head[:9]
        ref = head.removeprefix("ref: ")
        if (git / "commondir").exists():
            git = git / (git / "commondir").read_text().strip()
        if (git / ref).exists():
            return (git / ref).read_text().strip()[:9]
        packed = (git / "packed-refs").read_text().splitlines()
    except OSError:
        return "no commit"
    return next((line.split()[0][:9] for line in packed if line.endswith(f" {ref}")), "no commit")
