"""The benchmarks by name."""

from collections.abc import Callable, Iterator

from queues.benchmarks import (
    admitting,
    deciding,
    kueue,
    looking,
    packing,
    philly,
    reclaim,
    restarting,
    serving,
    sidebyside,
    stored,
    stream,
    topology,
)
from queues.benchmarks.results import Result, Setting

Benchmark = Callable[[Setting], Iterator[Result]]

BENCHMARKS: dict[str, Benchmark] = {
    "decide": deciding.decide,
    "decide-stored": stored.decide_stored,
    "decide-flat": deciding.flat,
    "kueue-baseline": kueue.baseline,
    "kueue-large": kueue.large,
    "packing": packing.packing,
    "borrowing": philly.borrowing,
    "gangs": philly.gangs,
    "gangs-stream": stream.stream,
    "reclaim": reclaim.reclaim,
    "topology": topology.topology,
    "admit": admitting.admit,
    "api": serving.api,
    "pages": looking.pages,
    "restart": restarting.restart,
    "side-by-side": sidebyside.side_by_side,
}
