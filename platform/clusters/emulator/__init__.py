"""A small Kubernetes API server with nodes that pretend: for `make run` and quick tests."""

from clusters.emulator.journal import StateError
from clusters.emulator.server import Emulator
from clusters.emulator.world import NodeGroup, WorldError, demo, read

__all__ = ["Emulator", "NodeGroup", "StateError", "WorldError", "demo", "read"]
