"""`python -m clusters.emulator`: serve until interrupted; one JSON line tells the address."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from clusters.emulator.journal import StateError
from clusters.emulator.orphans import end_with_parent
from clusters.emulator.server import Emulator
from clusters.emulator.world import NodeGroup, WorldError, demo, read


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    grammar = argparse.ArgumentParser(prog="python -m clusters.emulator", description=__doc__)
    grammar.add_argument("--port", type=int, default=0, help="0 takes a free one")
    world = grammar.add_mutually_exclusive_group()
    world.add_argument("--nodes", type=Path, metavar="FILE.yaml", help="groups of nodes to start with")
    world.add_argument("--world", choices=["demo"], help="a named set of nodes")
    grammar.add_argument("--state", "--state-file", type=Path, metavar="FILE", help="keep objects here between starts")
    grammar.add_argument("--kubeconfig", type=Path, metavar="PATH", help="write a kubeconfig here")
    grammar.add_argument("--token", default="", help="ask callers for this bearer token")
    grammar.add_argument("--installed", action="store_true", help="serve PyTorchJob, MPIJob, TrainJob and RayJob too")
    grammar.add_argument("--die-with-parent", action="store_true", help="end when the parent process ends")
    return grammar


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; return the exit code."""
    asked = parser().parse_args(arguments)
    try:
        emulator = Emulator(
            nodes=_nodes(asked), token=asked.token, state=asked.state, port=asked.port, installed=asked.installed
        )
    except (WorldError, StateError, OSError, OverflowError) as error:
        sys.stderr.write(f"emulator: {error}\n")
        return 2
    if asked.die_with_parent:
        end_with_parent(emulator.stop)
    told = {"url": emulator.url, "pid": os.getpid()}
    if asked.kubeconfig:
        told["kubeconfig"] = str(emulator.kubeconfig(asked.kubeconfig))

    def tell() -> None:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()

    try:
        emulator.run(tell)
    except KeyboardInterrupt:
        return 0
    return 0


def _nodes(asked: argparse.Namespace) -> tuple[NodeGroup, ...]:
    if asked.nodes:
        return read(asked.nodes)
    return demo() if asked.world else ()


if __name__ == "__main__":
    sys.exit(main())
