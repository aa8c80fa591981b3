"""What the guide tells an administrator to type makes a kubeconfig with which Tidegate works, and no more."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from clusters.asking import Failure
from clusters.kube import KubeCluster, connect
from clusters.port import ClusterError
from tests.clusters.waiting import until
from tests.kubernetes.session import RealCluster

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="types what the guide says, which needs kubectl"),
]

ROOT = Path(__file__).resolve().parents[2]


def commands() -> str:
    """Return the commands of the guide."""
    guide = (ROOT / "docs" / "operations.md").read_text()
    found = re.search(r"\*\*A kubeconfig for it\*\*.*?```sh\n(.*?)```", guide, re.DOTALL)
    assert found is not None
    return found[1]


def typed(text: str, admin: Path, folder: Path) -> None:
    """Run commands in a shell as an administrator whose checkout is this one."""
    if not (folder / "deploy").exists():
        (folder / "deploy").symlink_to(ROOT / "deploy")
    env = {**os.environ, "KUBECONFIG": str(admin)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=env, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def made(cluster_under_test: RealCluster, tmp_path: Path) -> Iterator[KubeCluster]:
    if cluster_under_test.plane is None:
        pytest.skip("nothing is installed into a cluster that is not ours")
    admin = cluster_under_test.kubeconfig
    typed(commands().replace("FILE", "made"), admin, tmp_path)
    cluster = connect("made", kubeconfig=tmp_path / "made")
    # The API server hears of new accounts and roles a moment later.
    until(lambda: _answers(cluster))
    yield cluster
    cluster.close()
    folder = "deploy/kubernetes"
    typed(f"kubectl delete --wait=false -f {folder}/rbac.yaml -f {folder}/namespace.yaml", admin, tmp_path)
    typed("kubectl delete --wait=false --ignore-not-found namespace team-guide", admin, tmp_path)


def _answers(cluster: KubeCluster) -> bool:
    with suppress(ClusterError):
        cluster.inventory()
        return True
    return False


def test_the_kubeconfig_of_the_guide_may_do_what_tidegate_does_and_read_no_secrets(made: KubeCluster) -> None:
    seen = made.inventory()
    made.ensure_team("team-guide", team="guide", ceiling={"nvidia.com/gpu": 8})
    made.ensure_team("team-guide", team="guide", ceiling=None)

    assert set(seen.position) >= {"nodes", "pods", "jobs"}
    with pytest.raises(Failure) as refused:
        made.api.ask("list", "/api/v1/secrets")
    assert refused.value.status == 403
