"""``python -m tests.kubernetes.serve``: a control plane with the kinds that people install, until it is interrupted."""

import signal
import sys
import tempfile
from pathlib import Path

from clusters.kube import connect
from tests.kubernetes import build, installed
from tests.kubernetes.controlplane import ControlPlane


def main() -> None:
    """Serve, and tell where the kubeconfig lies."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="tidegate-control-plane-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with ControlPlane(build.CONTROL_PLANE.binary, folder) as plane:
            cluster = connect("served", kubeconfig=plane.kubeconfig)
            (folder / "operators").mkdir()
            with installed.operators(plane, cluster, folder / "operators"):
                sys.stdout.write(f"{plane.kubeconfig}\n")
                sys.stdout.flush()
                signal.pause()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
