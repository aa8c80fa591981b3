import socket
from pathlib import Path

import pytest

from stack import programs
from stack.servers import StartFailed, free_port


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEGATE_PORT", "TIDEGATE_HOST", "TIDEGATE_KUBECONFIG", "TIDEGATE_CLUSTERS", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)


def test_the_first_free_port_is_taken_and_held_from_then_on() -> None:
    with programs.web_socket("127.0.0.1") as first, programs.web_socket("127.0.0.1") as second:
        ports = [held.getsockname()[1] for held in (first, second)]

    assert 8000 <= ports[0] < ports[1] < 8100


def test_a_named_port_is_used_and_one_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("TIDEGATE_PORT", str(port))

    with programs.web_socket("127.0.0.1") as held:
        assert held.getsockname()[1] == port
        with pytest.raises(StartFailed, match=rf"port {port} \(TIDEGATE_PORT\) is taken"):
            programs.web_socket("127.0.0.1")


@pytest.mark.parametrize("given", ["eight", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("TIDEGATE_PORT", given)

    with pytest.raises(StartFailed, match="give a number from 1 to 65535"):
        programs.web_socket("127.0.0.1")


def test_a_host_that_is_not_of_this_machine_is_named() -> None:
    with pytest.raises(StartFailed, match=r"cannot listen on 192\.0\.2\.1:8000 \(TIDEGATE_HOST\)"):
        programs.web_socket("192.0.2.1")


def test_servers_that_are_named_are_used_instead_of_own_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/tidegate")
    monkeypatch.setenv("TIDEGATE_KUBECONFIG", "/etc/kubeconfig")

    plan = programs.plan(tmp_path)

    with plan.web:
        assert [server.name for server in plan.servers] == ["valkey"]
        assert plan.emulator is None
        assert "DATABASE_URL" not in plan.env
        assert "TIDEGATE_CLUSTERS" not in plan.env


@pytest.mark.parametrize(("given", "names"), [("1", ["web"]), ("3", ["web", "web-2", "web-3"])])
def test_so_many_processes_answer_on_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, names: list[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_WEB_PROCESSES", given)

    plan = programs.plan(tmp_path)

    with plan.web:
        serving = [program for program in programs.processes(plan) if program.sockets]
        assert [program.name for program in serving] == names
        assert {program.command for program in serving} == {serving[0].command}
        assert {program.sockets for program in serving} == {(plan.web.fileno(),)}


@pytest.mark.parametrize("given", ["none", "0", "65"])
def test_a_number_of_web_processes_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("TIDEGATE_WEB_PROCESSES", given)
    plan = programs.plan(tmp_path)

    with plan.web, pytest.raises(StartFailed, match="TIDEGATE_WEB_PROCESSES"):
        programs.processes(plan)


def test_the_secret_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    first = programs.secret(tmp_path / "key")
    second = programs.secret(tmp_path / "key")

    assert first == second
    assert len(first) >= 50
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_logins_of_a_missing_or_broken_file_are_none(tmp_path: Path) -> None:
    assert programs.logins(tmp_path) == []
    (tmp_path / "demo.json").write_text("{")
    assert programs.logins(tmp_path) == []


def test_readiness_remembers_why_it_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ready = programs.Ready(f"http://127.0.0.1:{port}")

    answer = ready()

    assert answer is False
    assert "refused" in ready.said
