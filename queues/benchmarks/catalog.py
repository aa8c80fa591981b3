"""The benchmarks by name."""

from collections.abc import Callable, Iterator

from queues.benchmarks import kueue, packing, topology
from queues.benchmarks.results import Result, Setting

Benchmark = Callable[[Setting], Iterator[Result]]

BENCHMARKS: dict[str, Benchmark] = {
    "kueue-baseline": kueue.baseline,
    "kueue-large": kueue.large,
    "packing": packing.packing,
    "topology": topology.topology,
}
