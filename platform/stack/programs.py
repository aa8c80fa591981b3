"""What `make run` runs, in which order, and with which environment."""

import json
import os
import secrets
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from stack.running import MARK
from stack.servers import Postgres, Server, StartFailed, Valkey, free_port, listens
from stack.supervisor import Program

ROOT = Path(__file__).resolve().parents[2]
FIRST_PORT, PORTS = 8000, 100


@dataclass(slots=True)
class Ready:
    """Asks /readyz; ``said`` is the last answer that was not a yes."""

    address: str
    said: str = "no answer"

    def __call__(self) -> bool:
        """Return whether Tidegate says that it is ready."""
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=2) as answer:  # noqa: S310  our own address
                return bool(answer.status == 200)  # noqa: PLR2004  OK
        except urllib.error.HTTPError as error:
            self.said = error.read(2000).decode(errors="replace")
        except OSError as error:
            self.said = str(error)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run: its folder, servers, address and environment; ``emulator`` is a port, None where a cluster was named."""

    data: Path
    servers: tuple[Server, ...]
    emulator: int | None
    host: str
    port: int
    env: dict[str, str]

    @property
    def address(self) -> str:
        """Return where a browser finds Tidegate."""
        return f"http://{'localhost' if self.host in {'127.0.0.1', '0.0.0.0', '::1'} else self.host}:{self.port}"  # noqa: S104  compared, not bound


def plan(data: Path, *, verbose: bool = False) -> Plan:
    """Choose ports and servers; what the environment names is used instead of a server of our own."""
    servers: list[Server] = []
    env = {MARK: str(data), "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}", "PYTHONUNBUFFERED": "1"}
    if not os.environ.get("DATABASE_URL"):
        postgres = Postgres(data / "postgres")
        servers.append(postgres)
        env["DATABASE_URL"] = postgres.url
    if not os.environ.get("REDIS_URL"):
        valkey = Valkey(data / "valkey")
        servers.append(valkey)
        env["REDIS_URL"] = valkey.url
    named = os.environ.get("TIDEGATE_CLUSTERS") or os.environ.get("TIDEGATE_KUBECONFIG")
    if not named:
        env["TIDEGATE_CLUSTERS"] = f"demo={kubeconfig(data)}"
    host = os.environ.get("TIDEGATE_HOST") or "127.0.0.1"
    env |= {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "TIDEGATE_DATA": str(data),
        "TIDEGATE_STATIC_ROOT": str(data / "static"),
        "TIDEGATE_SECRET_KEY": os.environ.get("TIDEGATE_SECRET_KEY") or secret(data / "secret_key"),
        "TIDEGATE_TEST_ANNOTATIONS": os.environ.get("TIDEGATE_TEST_ANNOTATIONS") or "1",
        "TIDEGATE_HTTPS": os.environ.get("TIDEGATE_HTTPS") or "0",
        "TIDEGATE_LOG_LEVEL": os.environ.get("TIDEGATE_LOG_LEVEL") or ("INFO" if verbose else "WARNING"),
        "TIDEGATE_LOG_FORMAT": os.environ.get("TIDEGATE_LOG_FORMAT") or "plain",
    }
    return Plan(
        data=data,
        servers=tuple(servers),
        emulator=None if named else free_port(),
        host=host,
        port=web_port(host),
        env=env,
    )


def kubeconfig(data: Path) -> Path:
    """Return where the emulator writes how to reach it."""
    return data / "kubeconfig"


def secret(path: Path) -> str:
    """Return this checkout's own secret key, made on first use and readable by its owner alone."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path.read_text()


def web_port(host: str) -> int:
    """Return TIDEGATE_PORT, or the first free port from 8000."""
    if fixed := os.environ.get("TIDEGATE_PORT"):
        if not fixed.isdigit() or not 0 < int(fixed) < 65536:  # noqa: PLR2004  the largest port
            raise StartFailed(f"TIDEGATE_PORT is {fixed!r}: give a number from 1 to 65535")
        if listens(int(fixed)):
            raise StartFailed(
                f"port {fixed} (TIDEGATE_PORT) is taken by another program; choose another one or unset it"
            )
        return int(fixed)
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        if not listens(port):
            return port
    raise StartFailed(
        f"no free port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} on {host}; name one with TIDEGATE_PORT"
    )


def servers(plan: Plan) -> list[Program]:
    """Return databases and cluster; they start together."""
    programs = [
        Program(
            name=server.name,
            command=tuple(server.command()),
            ready=server.answers,
            stop=server.stop_signal,
            quiet=True,
        )
        for server in plan.servers
    ]
    if plan.emulator is not None:
        port, state = plan.emulator, plan.data / "cluster.json"
        command = ["clusters.emulator", "--port", str(port), "--world", "demo", "--state-file", str(state)]
        programs.append(
            Program(
                name="cluster",
                command=python(*command, "--kubeconfig", str(kubeconfig(plan.data))),
                env=plan.env,
                ready=lambda: kubeconfig(plan.data).exists() and listens(port),
                quiet=True,
            )
        )
    return programs


def preparations(plan: Plan) -> list[tuple[str, Program]]:
    """Return what runs once before the processes, each with what to say meanwhile."""
    manage = (sys.executable, str(ROOT / "manage.py"))
    return [
        ("Bringing the tables up to date", once(plan, "migrate", *manage, "migrate", "--verbosity", "0")),
        (
            "Loading the demo's teams",
            once(plan, "demo", *manage, "load_demo", "--logins", str(plan.data / "demo.json")),
        ),
        ("Collecting static files", once(plan, "static", *manage, "collectstatic", "--noinput", "--verbosity", "0")),
    ]


def processes(plan: Plan) -> list[Program]:
    """Return Tidegate's own processes."""
    level = plan.env["TIDEGATE_LOG_LEVEL"].lower()
    web = ["uvicorn", "config.asgi:application", "--host", plan.host, "--port", str(plan.port), "--log-level", level]
    celery = ("celery", "--app", "config.celery", "--quiet")
    queues = ("--queues", "admission,release", "--concurrency", "2", "--loglevel", level)
    beat = ("--schedule", str(plan.data / "beat"), "--pidfile", "", "--loglevel", level)
    commands = {
        "web": python(*web, "--no-access-log", "--timeout-graceful-shutdown", "2"),
        "worker": python(
            *celery, "worker", *queues, "--without-gossip", "--without-mingle", "--hostname", "worker@demo"
        ),
        "beat": python(*celery, "beat", *beat),
        "watcher": (sys.executable, str(ROOT / "manage.py"), "watch_clusters"),
    }
    # In a container people are root, and Celery's warning about that is nothing that they can act on.
    env = {**plan.env, "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges"}
    return [
        Program(name=name, command=command, env=env, ready=Ready(plan.address) if name == "web" else lambda: True)
        for name, command in commands.items()
    ]


def feeder(plan: Plan) -> Program:
    """Return the program that submits the demo's jobs through the REST API."""
    command = (
        sys.executable,
        str(ROOT / "manage.py"),
        "feed_demo",
        "--address",
        plan.address,
        "--logins",
        str(plan.data / "demo.json"),
    )
    return Program(name="feeder", command=command, env=plan.env)


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module."""
    return (sys.executable, "-m", module, *arguments)


def once(plan: Plan, name: str, *command: str) -> Program:
    """Return a program that runs to its end."""
    return Program(name=name, command=command, env=plan.env)


def logins(data: Path) -> list[tuple[str, str, str]]:
    """Return the demo's logins as load_demo wrote them: name, password, who that is."""
    try:
        told = json.loads((data / "demo.json").read_text())
        return [(str(one["name"]), str(one["password"]), str(one["who"])) for one in told["logins"]]
    except (OSError, ValueError, KeyError):
        return []
