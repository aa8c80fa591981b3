"""How fast this machine is at this moment, so that wall times can be read on another."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from queues.benchmarks.results import Result

ROUNDS = 3
WRITES = 20
ADDITIONS = 300_000


def calibrate(folder: Path) -> Iterator[Result]:
    """Yield the median of three of what a disk and an interpreter do in a second."""
    syncs = median(_syncs(folder) for _ in range(ROUNDS))
    yield Result(name="fdatasync", value=syncs, unit="/s")
    yield Result(name="python", value=median(_additions() for _ in range(ROUNDS)), unit="dict additions/s")


def _syncs(folder: Path) -> float:
    with tempfile.TemporaryFile(dir=folder) as file:
        since = time.perf_counter()
        for _ in range(WRITES):
            file.write(b"x" * 8192)
            file.flush()
            os.fdatasync(file.fileno())
        return WRITES / (time.perf_counter() - since)


def _additions() -> float:
    table: dict[int, int] = {}
    since = time.perf_counter()
    for number in range(ADDITIONS):
        table[number & 1023] = table.get(number & 1023, 0) + number
    return ADDITIONS / (time.perf_counter() - since)
