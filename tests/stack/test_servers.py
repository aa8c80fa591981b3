import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import SystemRandom

import psycopg
import pytest
import redis

from stack import servers
from stack.servers import Postgres, StartFailed, Valkey, free_port, listens

ROOT = Path(__file__).resolve().parents[2]


def ask(server: Postgres, question: str) -> object:
    with psycopg.connect(server.url, autocommit=True) as connection:
        found = connection.execute(question.encode())
        row = found.fetchone() if found.description else None
        return row[0] if row else None


@pytest.fixture
def private() -> Iterator[Path]:
    """Yield a folder that nobody else may enter, with a space in its name."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate private "))
    folder.chmod(0o700)
    yield folder
    shutil.rmtree(folder)


def test_postgres_keeps_its_data_between_starts_in_a_private_folder_with_a_space(private: Path) -> None:
    with Postgres(private / "postgres") as first:
        ask(first, "CREATE TABLE kept AS SELECT 7 AS value")

    with Postgres(private / "postgres") as second:
        kept = ask(second, "SELECT value FROM kept")

    assert kept == 7
    assert not listens(second.port)


def test_postgres_starts_after_it_was_killed(private: Path) -> None:
    first = Postgres(private / "postgres").start()
    assert first.process is not None
    first.process.kill()
    first.process.wait()
    note = private / "postgres" / "postmaster.pid"
    note.write_text(note.read_text().replace(note.read_text().splitlines()[0], str(os.getpid()), 1))

    with Postgres(private / "postgres") as second:
        answer = ask(second, "SELECT 1")

    assert answer == 1


def test_a_second_postgres_over_the_same_folder_is_refused(private: Path) -> None:
    with Postgres(private / "postgres"), pytest.raises(StartFailed, match="another PostgreSQL"):
        Postgres(private / "postgres").start()


def test_a_data_folder_that_was_cut_off_while_it_was_made_is_made_anew(private: Path) -> None:
    (private / "postgres.new" / "base").mkdir(parents=True)

    with Postgres(private / "postgres") as server:
        answer = ask(server, "SELECT 1")

    assert answer == 1
    assert not (private / "postgres.new").exists()


def test_data_of_another_major_version_are_named_with_what_to_do(private: Path) -> None:
    server = Postgres(private / "postgres")
    server.prepare()
    (private / "postgres" / "PG_VERSION").write_text("12\n")

    with pytest.raises(StartFailed, match=r"made by PostgreSQL 12, and this is \d+\. `make run FRESH=1`"):
        server.start()


def test_a_server_that_cannot_start_says_why(private: Path) -> None:
    with Valkey(private / "valkey") as taken, pytest.raises(StartFailed, match=r"(?s)did not start.*in use"):
        Postgres(private / "postgres", port=taken.port).start()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_without_user_namespaces_root_still_starts_postgres_in_a_private_folder(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = servers._works  # noqa: SLF001  the one place that tells what this machine allows
    monkeypatch.setattr(servers, "_works", lambda command: command[0] != "unshare" and works(command))
    servers.unprivileged.cache_clear()

    try:
        with Postgres(private / "postgres") as server:
            answer = ask(server, "SELECT 1")
            owner = (private / "postgres").stat().st_uid
        assert servers.unprivileged()[0] == "setpriv"
    finally:
        servers.unprivileged.cache_clear()

    assert answer == 1
    assert owner == servers.NOBODY
    with Postgres(private / "postgres") as again:
        assert ask(again, "SELECT 1") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_without_any_way_out_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_works", lambda _command: False)
    servers.unprivileged.cache_clear()

    try:
        with pytest.raises(StartFailed, match=r"util-linux.*Run as an ordinary user"):
            servers.unprivileged()
    finally:
        servers.unprivileged.cache_clear()


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (Linux)")
def test_servers_end_with_a_process_that_is_killed(private: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from stack.servers import Postgres, Valkey\n"
        "servers = [kind(Path(sys.argv[1]) / kind.title).start() for kind in (Postgres, Valkey)]\n"
        "print(*(server.port for server in servers), flush=True); time.sleep(60)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}
    command = [sys.executable, "-c", code, str(private)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as starter:
        assert starter.stdout is not None
        ports = [int(word) for word in starter.stdout.readline().split()]

        starter.send_signal(signal.SIGKILL)

    assert len(ports) == 2
    # Whoever binds the ports anew proves that both are gone.
    for folder, port in zip((private / "PostgreSQL", private / "Valkey"), ports, strict=True):
        kind = Postgres if folder.name == "PostgreSQL" else Valkey
        deadline = time.monotonic() + 60
        while listens(port):
            assert time.monotonic() < deadline
        with kind(folder, port=port):
            assert listens(port)


def test_valkey_answers_and_keeps_nothing(private: Path) -> None:
    with Valkey(private / "valkey") as server:
        client = redis.Redis.from_url(server.url)
        client.set("key", "value")
        client.close()

    assert not listens(server.port)
    assert not list((private / "valkey").glob("*.rdb"))


def test_a_free_port_is_one_on_which_nobody_listens() -> None:
    assert not listens(free_port())


def test_a_free_port_is_not_one_that_an_outgoing_connection_may_take() -> None:
    first_of_linux = 32_768

    assert all(free_port() < first_of_linux for _ in range(20))


def test_a_port_that_somebody_has_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = free_port()
        monkeypatch.setattr(SystemRandom, "sample", lambda *_: [taken.getsockname()[1], free])

        assert free_port() == free
