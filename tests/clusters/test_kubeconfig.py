"""Which settings lead to a cluster, and what is said of those that do not."""

from pathlib import Path

import pytest

from clusters.kube import connect
from clusters.port import ClusterError, Unreachable
from tests.clusters.faulty import Faulty, answer

CONTEXT = b"""
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "no such file"),
        (b"", "No configuration|empty"),
        (b"just text", "kubeconfig"),
        (b"- 1\n- 2", "kubeconfig"),
        (b"a: [", "not YAML"),
        (b"\xff\xfe\x00", "kubeconfig"),
        (b"apiVersion: v1\nkind: Config\n", "kubeconfig"),
        (b"current-context: gone\ncontexts: []\nclusters: []\nusers: []\n", "gone"),
        (CONTEXT + b"clusters: [{name: k, cluster: {}}]\n", "no server"),
        (
            CONTEXT + b"clusters: [{name: k, cluster: {server: 'https://a', certificate-authority: gone.crt}}]\n",
            "gone.crt",
        ),
        (
            CONTEXT.replace(b"{}", b"{tokenFile: gone.token}")
            + b"clusters: [{name: k, cluster: {server: 'https://a'}}]",
            "gone.token",
        ),
    ],
    ids=["missing", "empty", "text", "list", "yaml", "binary", "bare", "context", "server", "authority", "token"],
)
def test_a_kubeconfig_that_cannot_be_used_is_named_with_its_fault(
    tmp_path: Path, content: bytes | None, fault: str
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ClusterError, match=fault) as caught:
        connect("test", kubeconfig=path)

    assert str(path) in str(caught.value)


def test_a_bad_kubeconfig_may_be_put_right_while_the_cluster_does_not_answer(server: Faulty, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("a: [")
    cluster = connect("test", kubeconfig=path, later=True)

    with pytest.raises(Unreachable, match="not YAML"):
        cluster.check()
    server.kubeconfig(path)
    server.tell("GET", "/version", answer({"gitVersion": "v1.37.2"}))

    assert cluster.check() == "v1.37.2"
    cluster.close()


def test_a_context_may_be_chosen(server: Faulty, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path / "kubeconfig")

    connect("test", kubeconfig=path, context="here").close()
    with pytest.raises(ClusterError, match="elsewhere"):
        connect("test", kubeconfig=path, context="elsewhere")


def test_outside_a_cluster_a_kubeconfig_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(ClusterError, match="no kubeconfig"):
        connect("test")
