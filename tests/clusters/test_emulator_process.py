"""The emulator as a process: its command line, its state, its end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from clusters.emulator import Emulator, NodeGroup, StateError, WorldError, demo, read
from clusters.emulator.world import bodies
from tests.clusters.emulator_kit import ENTRY, GPU, Object, Talk, job, pod, until

SOURCES = Path(__file__).resolve().parents[2] / "platform"
WATCH_SECONDS = 120
pytestmark = pytest.mark.processes


@contextmanager
def _started(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", Object]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "clusters.emulator", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert process.stdout is not None
    try:
        told: Object = json.loads(process.stdout.readline())
        yield process, told
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _talk(told: Object, token: str = "") -> Talk:
    class There:
        url = told["url"]

    There.token = token  # type: ignore[attr-defined]
    return Talk(There, "default")  # type: ignore[arg-type]


def test_it_tells_its_address_and_writes_a_kubeconfig_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    with _started("--world", "demo", "--kubeconfig", str(path), "--token", ENTRY) as (process, told):
        talk = _talk(told, ENTRY)

        config = yaml.safe_load(path.read_text())

        assert told["pid"] == process.pid
        assert config["clusters"][0]["cluster"]["server"] == told["url"]
        assert config["users"][0]["user"]["token"] == ENTRY
        assert path.stat().st_mode & 0o077 == 0
        assert len(talk.get("/api/v1/nodes")["items"]) == 24
        assert talk.ask("GET", "/api/v1/nodes", token="")[0] == 401


def test_interrupt_and_terminate_end_it_at_once_even_with_an_open_watch() -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        with _started() as (process, told):
            watch = _talk(told).watch("/api/v1/namespaces", seconds=WATCH_SECONDS)
            next(watch)

            begun = time.monotonic()
            process.send_signal(signal_number)
            process.wait(WATCH_SECONDS)

            assert time.monotonic() - begun < WATCH_SECONDS / 2
            watch.close()


def test_a_killed_emulator_comes_back_as_it_was(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with _started("--world", "demo", "--state", str(state)) as (process, told):
        talk = _talk(told)
        talk.make(talk.jobs, job("long", n=2, wishes={"forever": "1"}))
        talk.make(talk.jobs, job("short", wishes={"run-for": "700ms"}))
        talk.make(talk.maps, {"metadata": {"name": "gone"}})
        talk.drop(f"{talk.maps}/gone")
        talk.running("long", 2)
        until(lambda: talk.pods_of("short")[0]["status"]["phase"] in {"Running", "Succeeded"})
        until(lambda: talk.get(f"{talk.jobs}/long")["status"].get("ready") == 2)
        before = talk.get(talk.jobs), talk.pods_of("long")
        process.send_signal(signal.SIGKILL)
        process.wait()

    with _started("--world", "demo", "--state", str(state)) as (_, told):
        talk = _talk(told)
        jobs, pods = talk.get(talk.jobs), talk.pods_of("long")
        position = before[0]["metadata"]["resourceVersion"]
        stale = next(talk.watch(f"{talk.jobs}?resourceVersion={position}"))
        over = talk.job_over("short")
        talk.make(talk.jobs, job("later"))
        talk.job_over("later")

        assert {row["metadata"]["uid"] for row in jobs["items"]} == {
            row["metadata"]["uid"] for row in before[0]["items"]
        }
        assert pods == before[1]
        assert stale["type"] in {"ERROR", "MODIFIED"}
        assert int(jobs["metadata"]["resourceVersion"]) >= int(position)
        assert over["status"]["succeeded"] == 1
        assert talk.gone(f"{talk.maps}/gone")
        assert len(talk.get("/api/v1/nodes")["items"]) == 24


def test_deleted_nodes_do_not_come_back(tmp_path: Path) -> None:
    state = tmp_path / "state"
    groups = [NodeGroup(name="n-{n}", count=2)]
    with Emulator(nodes=groups, state=state) as first:
        Talk(first, "default").drop("/api/v1/nodes/n-0")

    with Emulator(nodes=groups, state=state) as second:
        names = [row["metadata"]["name"] for row in Talk(second, "default").get("/api/v1/nodes")["items"]]

    assert names == ["n-1"]


def test_a_state_cut_short_by_a_kill_loses_only_its_last_line(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Emulator(state=state) as first:
        talk = Talk(first, "default")
        talk.make(talk.maps, {"metadata": {"name": "kept"}})
        talk.make(talk.maps, {"metadata": {"name": "cut"}})
    whole = state.read_bytes()
    state.write_bytes(whole[: whole.rindex(b'"cut"')])

    with Emulator(state=state) as second:
        talk = Talk(second, "default")

        assert talk.get(f"{talk.maps}/kept")
        assert talk.gone(f"{talk.maps}/cut")


def test_a_state_that_is_none_is_refused_and_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("something else\n")

    result = subprocess.run(
        [sys.executable, "-m", "clusters.emulator", "--state", str(state)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        timeout=90,
        check=False,
    )

    assert result.returncode == 2
    assert str(state) in result.stderr
    assert state.read_text() == "something else\n"


def test_two_emulators_cannot_share_a_state(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Emulator(state=state), pytest.raises(StateError, match="in use"):
        Emulator(state=state)


def test_the_state_is_rewritten_when_most_of_it_is_out_of_date(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Emulator(state=state) as running:
        talk = Talk(running, "default")
        talk.make(talk.maps, {"metadata": {"name": "map"}})
        for number in range(30):
            talk.merge(f"{talk.maps}/map", {"data": {"n": str(number) + "x" * 300_000}})

    assert state.stat().st_size < 6_000_000
    with Emulator(state=state) as again:
        talk = Talk(again, "default")
        assert talk.get(f"{talk.maps}/map")["data"]["n"].startswith("29x")


def test_it_ends_when_its_parent_is_killed() -> None:
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'clusters.emulator', '--die-with-parent'])\n"
        "child.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert parent.stdout is not None
    child: int = json.loads(parent.stdout.readline())["pid"]

    parent.kill()
    parent.wait()

    # The pipe ends when its last writer, the emulator, has ended.
    assert parent.stdout.read() == ""
    parent.stdout.close()
    until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2])


def test_nodes_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(
        "nodes:\n"
        "- name: gpu-{n}\n"
        "  count: 2\n"
        "  first: 1\n"
        "  labels: {rack: 7}\n"
        "  taints: [{key: gpu, effect: NoSchedule}]\n"
        "  allocatable: {cpu: 4, memory: 8Gi, pods: 10, nvidia.com/gpu: 2}\n"
    )

    with Emulator(nodes=read(path)) as running:
        nodes = Talk(running, "default").get("/api/v1/nodes")["items"]

    assert [row["metadata"]["name"] for row in nodes] == ["gpu-1", "gpu-2"]
    assert nodes[0]["metadata"]["labels"]["rack"] == "7"
    assert nodes[0]["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]
    assert nodes[0]["status"]["allocatable"][GPU] == "2"


@pytest.mark.parametrize("text", ["", "nodes: 3", "- 7", "- {count: 2}", "- {name: a, colour: red}", "[", "\x00"])
def test_a_file_that_describes_no_nodes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)

    with pytest.raises(WorldError):
        read(path)


def test_the_demo_has_two_gpu_types_in_six_racks() -> None:
    nodes = list(bodies(demo()))

    by_product: dict[str, list[str]] = {}
    for node in nodes:
        labels = node["metadata"]["labels"]
        by_product.setdefault(labels["nvidia.com/gpu.product"], []).append(node["status"]["allocatable"][GPU])
    assert {name: (len(rows), rows[0]) for name, rows in by_product.items()} == {
        "NVIDIA-H100-80GB-HBM3": (16, "8"),
        "NVIDIA-L40S": (8, "4"),
    }
    assert {node["metadata"]["labels"]["tidegate.io/rack"] for node in nodes} == {f"r{n}" for n in range(1, 7)}
    assert all("topology.kubernetes.io/zone" in node["metadata"]["labels"] for node in nodes)


def test_a_port_in_use_is_told_in_one_line() -> None:
    with Emulator() as running:
        port = running.url.rpartition(":")[2]
        result = subprocess.run(
            [sys.executable, "-m", "clusters.emulator", "--port", port],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            timeout=90,
            check=False,
        )

    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "in use" in result.stderr


def test_two_emulators_in_one_process_know_nothing_of_each_other() -> None:
    with Emulator() as one, Emulator() as two:
        first, second = Talk(one, "default"), Talk(two, "default")
        first.make(first.pods, pod("p"))

        assert second.get(second.pods)["items"] == []
