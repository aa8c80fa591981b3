"""One real cluster for the whole test session: what TIDEGATE_KUBECONFIG names, else a control plane of our own."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kubernetes import build
from tests.kubernetes.controlplane import ControlPlane


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCluster:
    """A cluster that tests may use; ``plane`` is None where it is not ours to break."""

    kubeconfig: Path
    plane: ControlPlane | None


WITHOUT = "not kubernetes"  # what `make test` asks for: nothing that needs a control plane, built or not
_KEY = pytest.StashKey[RealCluster]()


def real_cluster(config: pytest.Config) -> RealCluster:
    """Return the session's cluster; whoever asks first starts it, and it stops with the session."""
    if config.option.markexpr == WITHOUT:
        pytest.fail("this test needs the real control plane and is not marked so", pytrace=False)
    if _KEY not in config.stash:
        config.stash[_KEY] = _given() or _started(config)
    return config.stash[_KEY]


def _given() -> RealCluster | None:
    path = os.environ.get("TIDEGATE_KUBECONFIG")
    return RealCluster(kubeconfig=Path(path), plane=None) if path else None


def _started(config: pytest.Config) -> RealCluster:
    if not all(map(build.is_current, build.PROGRAMS)):
        text = "the test control plane is not built: make test-kubernetes builds it"
        if "kubernetes" in config.option.markexpr:
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    folder = tempfile.TemporaryDirectory(prefix="tidegate-kubernetes-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    plane = ControlPlane(build.CONTROL_PLANE.binary, Path(folder.name)).start()
    config.add_cleanup(plane.stop)
    return RealCluster(kubeconfig=plane.kubeconfig, plane=plane)
