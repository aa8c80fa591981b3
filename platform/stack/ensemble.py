"""One Tidegate of real processes for soaks and benchmarks: each is started, killed and started again by name."""

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from stack import guard, programs
from stack.programs import ROOT, Plan
from stack.servers import Postgres, StartFailed, Valkey

READY_SECONDS = 60.0
OURS = ("web", "worker", "beat", "watcher")


class Ensemble:
    """Servers and processes over a folder; a guard ends them all when this process ends, however that comes about.

    ``clusters`` is what TIDEGATE_CLUSTERS shall say. Databases forget nothing but what a power cut would take.
    """

    def __init__(self, folder: Path, *, clusters: str, env: Mapping[str, str] | None = None) -> None:
        """Choose ports and an environment; nothing runs yet."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.postgres = Postgres(folder / "postgres", durable=False)
        self.valkey = Valkey(folder / "valkey")
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.env = {
            "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": self.valkey.url,
            "TIDEGATE_CLUSTERS": clusters,
            "TIDEGATE_SECRET_KEY": secrets.token_urlsafe(50),
            "TIDEGATE_STATIC_ROOT": str(folder / "static"),
            "TIDEGATE_TEST_ANNOTATIONS": "1",
            "TIDEGATE_LOG_LEVEL": "WARNING",
            "TIDEGATE_LOG_FORMAT": "plain",
            **(env or {}),
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return where the REST API is."""
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def prepare(self) -> None:
        """Start the servers and make the tables."""
        guardian = [sys.executable, "-m", "stack.guard"]
        self._guard = subprocess.Popen(
            guardian, stdin=subprocess.PIPE, env={**os.environ, **self.env}, start_new_session=True
        )
        (self.folder / "static").mkdir(exist_ok=True)
        self.postgres.start()
        self.valkey.start()
        self.manage("migrate", "--verbosity", "0", "--skip-checks")

    def manage(self, *arguments: str) -> None:
        """Run one of our commands to its end; raise StartFailed with its words where it fails."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            check=False,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise StartFailed(f"{arguments[0]} failed:\n{done.stderr[-1500:]}")

    def start(self, *names: str) -> None:
        """Start our processes of these names (all, where none is named), each in a group of its own."""
        commands = self._commands()
        for name in names or OURS:
            # web-2 is a second web.
            self.launch(
                name,
                commands[name.partition("-")[0]],
                sockets=(self.socket.fileno(),) if name.startswith("web") else (),
            )

    def launch(self, name: str, command: Sequence[str], *, sockets: Sequence[int] = ()) -> None:
        """Start any program under a name, with our environment and a log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=sockets,
            )
        self.running[name] = process
        self._tell_guard(f"+ {process.pid} {int(signal.SIGTERM)}")

    def emulate(self, *options: str, seconds: float = READY_SECONDS) -> Path:
        """Start an emulated cluster, and return its kubeconfig when it answers."""
        path = self.folder / "kubeconfig"
        self.launch("cluster", (sys.executable, "-m", "clusters.emulator", "--kubeconfig", str(path), *options))
        end = time.monotonic() + seconds
        # Its first line says that it listens and that the file is whole.
        while "\n" not in self.words("cluster"):
            if time.monotonic() > end or self.running["cluster"].poll() is not None:
                raise StartFailed(f"the emulator did not start:\n{self.words('cluster')}")
            time.sleep(0.05)
        return path

    def wait_for_web(self, seconds: float = READY_SECONDS) -> None:
        """Wait until web answers, whether or not a loop turns."""
        end = time.monotonic() + seconds
        while not self._web_answers():
            if time.monotonic() > end or self.running["web"].poll() is not None:
                raise StartFailed(f"web does not answer:\n{self.words('web')}")
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        """Kill a process and its children without a word; one that does not run is passed over."""
        process = self.running.pop(name, None)
        if process is None:
            return
        guard.send(process.pid, signal.SIGKILL)
        process.wait(60)
        self._tell_guard(f"- {process.pid}")

    def restart_valkey(self) -> None:
        """Kill Valkey and start it again, empty, at the same address."""
        if self.valkey.process is not None:
            self.valkey.process.kill()
            self.valkey.stop()
        self.valkey.start()

    def ended(self) -> list[str]:
        """Return the processes that ended although nobody killed them."""
        return [name for name, process in self.running.items() if process.poll() is not None]

    def words(self, name: str) -> str:
        """Return the end of a process's log."""
        with suppress(FileNotFoundError):
            return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
        return ""

    def pids(self) -> dict[str, int]:
        """Return every process with its children, as ``worker``, ``worker/1234`` and so on."""
        roots = {name: process.pid for name, process in self.running.items()}
        for server in (self.postgres, self.valkey):
            if server.process is not None:
                roots[server.name] = server.process.pid
        parents = dict(_parents())
        found = dict(roots)
        for pid in parents:
            above = parents.get(pid)
            while above and above not in roots.values():
                above = parents.get(above)
            if above:
                name = next(name for name, root in roots.items() if root == above)
                found[f"{name}/{pid}"] = pid
        return found

    def close(self) -> None:
        """Kill what runs, the servers last."""
        for name in tuple(self.running):
            self.kill(name)
        self.valkey.stop()
        self.postgres.stop()
        self.socket.close()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()

    def __enter__(self) -> Self:
        """Start the servers."""
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill everything."""
        self.close()

    def _web_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=2) as answer:  # noqa: S310  our own address
                return bool(answer.status == http.HTTPStatus.OK)
        except (OSError, http.client.HTTPException):
            return False

    def _commands(self) -> dict[str, tuple[str, ...]]:
        plan = Plan(data=self.folder, servers=(), emulator=None, web=self.socket, env=dict(self.env))
        return {program.name: program.command for program in programs.processes(plan)}

    def _tell_guard(self, line: str) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with suppress(OSError):
                self._guard.stdin.write(f"{line}\n".encode())
                self._guard.stdin.flush()


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process of this machine with its parent."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            yield int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])
