"""The adapter against a server that misbehaves."""

import gc
import json
import select
import socket
import struct
import time
from pathlib import Path

import pytest
from urllib3.util import connection

from clusters.kube import connect
from clusters.names import object_name
from clusters.port import (
    ClusterError,
    GroupSpec,
    Launch,
    NameTaken,
    Pin,
    QuotaRefused,
    Refused,
    TaskSpec,
    Unreachable,
    WaveRef,
)
from clusters.verbs import KubeCluster
from tests.clusters.faulty import SILENT_SECONDS, Faulty, answer, failure, half, silence, stream

VERSION = answer({"gitVersion": "v1.37.2"})
NODES, PODS, JOBS = "/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"
OURS = "/apis/batch/v1/namespaces/n/jobs"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
OBJECT = object_name("j", 1, 0)


def launch() -> Launch:
    tasks = (TaskSpec(index=0, task=0, node="gpu-1"),)
    group = GroupSpec(group=0, tasks=tasks, resource="nvidia.com/gpu", units=1, cpu=1, memory=1, image="i")
    return Launch(
        wave="w",
        job="j",
        job_name="train",
        number=1,
        attempt=1,
        team="t",
        queue="q",
        namespace="n",
        gang=True,
        groups=(group,),
        priority_class="normal",
        priority_value=0,
    )


def test_a_server_that_is_not_there_is_unreachable(server: Faulty, tmp_path: Path) -> None:
    cluster = connect("test", kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"))
    server.__exit__(None, None, None)

    with pytest.raises(Unreachable, match=server.url):
        cluster.check()


def test_a_server_that_dies_before_the_handshake_is_unreachable(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = socket.create_server(("127.0.0.1", 0))
    connected = connection.create_connection

    def connect_and_be_reset(address: tuple[str, int], *_: object, **__: object) -> socket.socket:
        """Fault: the server resets what it has accepted before a word is said."""
        mine = connected(address, timeout=60)
        theirs, _ = dying.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        select.select([mine], [], [], 60)
        return mine

    monkeypatch.setattr(connection, "create_connection", connect_and_be_reset)
    path = server.kubeconfig(tmp_path / "kubeconfig")
    path.write_text(path.read_text().replace(server.url, f"https://127.0.0.1:{dying.getsockname()[1]}"))
    cluster = connect("test", kubeconfig=path)

    with dying, pytest.raises(Unreachable, match="reset by peer"):
        cluster.check()

    cluster.close()
    gc.collect()


def test_a_server_that_says_nothing_is_unreachable_in_time(impatient: KubeCluster, server: Faulty) -> None:
    server.tell("GET", "/version", silence)
    begun = time.monotonic()

    with pytest.raises(Unreachable, match=r"[Tt]imed out"):
        impatient.check()

    assert time.monotonic() - begun < SILENT_SECONDS
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "broken",
    [
        half,
        answer(b"<html>Please log in</html>"),
        answer([1, 2]),
        answer(b""),
        answer(b"", status=302, headers={"Location": "/"}),
    ],
    ids=["cut off", "a page", "a list", "nothing", "a redirect"],
)
def test_an_answer_that_cannot_be_trusted_is_no_answer(cluster: KubeCluster, server: Faulty, broken: object) -> None:
    server.tell("GET", "/version", broken)  # type: ignore[arg-type]

    with pytest.raises(Unreachable):
        cluster.check()


def test_a_throttled_request_says_when_to_come_again(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("GET", "/version", failure(429, "slow down", headers={"Retry-After": "3"}))

    with pytest.raises(Unreachable, match="slow down") as caught:
        cluster.check()

    assert caught.value.retry_after == 3.0


def test_a_rotated_token_is_read_anew_and_the_request_repeated(server: Faulty, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    cluster = connect("test", kubeconfig=server.kubeconfig(tmp_path / "kubeconfig", token_file=token))
    server.tell("GET", "/version", failure(401, "Unauthorized"), VERSION)
    token.write_text("new\n")

    assert cluster.check() == "v1.37.2"

    assert [request.token for request in server.requests] == ["old", "new"]
    cluster.close()


def test_a_token_that_stays_wrong_is_tried_twice_and_no_more(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("GET", "/version", failure(401, "Unauthorized"))

    with pytest.raises(Unreachable, match="Unauthorized"):
        cluster.check()

    assert len(server.requests) == 2


def test_a_kubeconfig_that_vanished_makes_a_refused_token_unreachable(
    cluster: KubeCluster, server: Faulty, tmp_path: Path
) -> None:
    server.tell("GET", "/version", failure(401, "Unauthorized"))
    (tmp_path / "kubeconfig").unlink()

    with pytest.raises(Unreachable, match="no such file"):
        cluster.check()


def test_requests_are_counted_by_verb_and_resource(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("POST", CLASSES, answer({}))
    server.tell("POST", OURS, answer({"metadata": {"uid": "u"}}))
    server.tell("DELETE", OURS, answer({}))

    cluster.launch(launch())
    cluster.stop(WaveRef(wave="w", job="j", number=1, namespace="n", groups=1))

    assert cluster.api.requests == {"create priorityclasses": 1, "create jobs": 1, "delete jobs": 1}


def test_a_list_whose_pages_expire_is_taken_whole(cluster: KubeCluster, server: Faulty) -> None:
    page = {"metadata": {"resourceVersion": "1", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    whole = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}
    nothing = answer({"metadata": {"resourceVersion": "9"}, "items": None})
    server.tell("GET", NODES, answer(page), failure(410, "expired"), answer(whole))
    server.tell("GET", PODS, nothing)
    server.tell("GET", JOBS, nothing)

    seen = cluster.inventory()

    assert [node.name for node in seen.nodes] == ["a", "b"]
    assert seen.position == {"nodes": "9", "pods": "9", "jobs": "9"}
    assert [request.query.get("continue") for request in server.requests[:3]] == [None, "more", None]


def test_an_inventory_that_makes_no_sense_is_no_answer(cluster: KubeCluster, server: Faulty) -> None:
    bad = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "many"}}}
    nothing = answer({"metadata": {"resourceVersion": "9"}, "items": []})
    server.tell("GET", NODES, answer({"metadata": {"resourceVersion": "9"}, "items": [bad]}))
    server.tell("GET", PODS, nothing)
    server.tell("GET", JOBS, nothing)

    with pytest.raises(Unreachable, match="many"):
        cluster.inventory()


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (failure(403, "exceeded quota: fence"), QuotaRefused),
        (failure(403, "you may not"), Refused),
        (failure(422, "spec.completions: Invalid"), Refused),
        (failure(500, "webhook timed out"), Unreachable),
        (failure(404, "no such kind"), Refused),
        (failure(404, 'namespaces "n" not found', details={"kind": "namespaces"}), Unreachable),
    ],
)
def test_a_refused_launch_says_why(
    cluster: KubeCluster, server: Faulty, refusal: object, kind: type[ClusterError]
) -> None:
    server.tell("POST", CLASSES, failure(409, "already there"))
    server.tell("POST", OURS, refusal)  # type: ignore[arg-type]

    with pytest.raises(kind):
        cluster.launch(launch())


def test_a_namespace_that_was_lost_is_made_again_by_the_next_pass(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("POST", "/api/v1/namespaces", answer({"metadata": {}}))
    server.tell("DELETE", "/api/v1/namespaces/n/resourcequotas/tidegate-fence", failure(404, "not found"))
    server.tell("POST", CLASSES, answer({}))
    lost = failure(404, 'namespaces "n" not found', details={"kind": "namespaces"})
    server.tell("POST", OURS, lost, answer({"metadata": {"uid": "u"}}))
    cluster.ensure_team("n", team="t", ceiling=None)

    with pytest.raises(Unreachable):
        cluster.launch(launch())
    cluster.ensure_team("n", team="t", ceiling=None)
    cluster.launch(launch())

    assert [request.method for request in server.requests if request.path == "/api/v1/namespaces"] == ["POST", "POST"]


def test_an_object_that_goes_while_it_is_examined_can_be_tried_again(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("POST", CLASSES, answer({}))
    server.tell("POST", OURS, failure(409, "already exists"))

    with pytest.raises(NameTaken) as caught:
        cluster.launch(launch())

    assert caught.value.leaving


def test_a_create_that_was_cut_off_is_found_by_the_next(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("POST", CLASSES, answer({}))
    server.tell("POST", OURS, half, failure(409, "already exists"))
    labels = {"tidegate.io/wave": "w"}
    server.tell("GET", f"{OURS}/{OBJECT}", answer({"metadata": {"uid": "u", "labels": labels}}))

    with pytest.raises(Unreachable):
        cluster.launch(launch())
    cluster.launch(launch())

    sent = [json.loads(request.body)["metadata"]["name"] for request in server.requests if request.path == OURS]
    assert sent == [OBJECT, OBJECT]


def test_every_pin_is_tried_before_the_first_error_is_raised(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("PATCH", "/api/v1/namespaces/n/pods/a", failure(500, "broken"))
    server.tell("PATCH", "/api/v1/namespaces/n/pods/b", answer({}))

    with pytest.raises(Unreachable, match="broken"):
        cluster.pin([Pin(namespace="n", pod=pod, node="gpu-1", task=0) for pod in "ab"])

    assert {request.path[-1] for request in server.requests} == {"a", "b"}


def test_a_pin_that_kubernetes_finds_invalid_is_refused(cluster: KubeCluster, server: Faulty) -> None:
    gated = {
        "metadata": {"namespace": "n", "name": "a", "uid": "u"},
        "spec": {"schedulingGates": [{"name": "tidegate.io/placement"}]},
    }
    server.tell("PATCH", "/api/v1/namespaces/n/pods/a", failure(422, "invalid affinity"))
    server.tell("GET", "/api/v1/namespaces/n/pods/a", answer(gated))

    with pytest.raises(Refused, match="invalid affinity"):
        cluster.pin([Pin(namespace="n", pod="a", node="gpu-1", task=0)])


def test_names_cannot_lead_a_request_elsewhere(cluster: KubeCluster, server: Faulty) -> None:
    with pytest.raises(Refused):
        cluster.logs("n/../../nodes", "p?x=1")

    assert server.requests[0].path == "/api/v1/namespaces/n%2F..%2F..%2Fnodes/pods/p%3Fx%3D1/log"


def test_a_log_that_breaks_off_says_so(cluster: KubeCluster, server: Faulty) -> None:
    server.tell("GET", "/api/v1/namespaces/n/pods/p/log", stream(b"one line\n", then="drop"))
    log = cluster.logs("n", "p").chunks()

    assert next(log) == b"one line\n"
    with pytest.raises(Unreachable, match="broke off"):
        next(log)
