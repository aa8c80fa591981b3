"""What `make run` runs, in which order, and with which environment."""

import errno
import json
import os
import secrets
import socket
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

from stack.running import MARK
from stack.servers import Postgres, Server, StartFailed, Valkey, free_port, listens
from stack.supervisor import Program

ROOT = Path(__file__).resolve().parents[2]
FIRST_PORT, PORTS, LAST_PORT = 8000, 100, 65535
MOST_WEB, MOST_WEB_GIVEN = 2, 64
LOCAL = {"127.0.0.1", "0.0.0.0", "::1"}  # noqa: S104  how a browser on this machine calls them: localhost


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
    web: socket.socket
    env: dict[str, str]

    @property
    def address(self) -> str:
        """Return where a browser finds Tidegate."""
        host, port = self.web.getsockname()[:2]
        return f"http://{'localhost' if host in LOCAL else host}:{port}"


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
        web=web_socket(host),
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


def web_socket(host: str) -> socket.socket:
    """Return a socket that listens on TIDEGATE_PORT, or on the first free port from 8000."""
    fixed = os.environ.get("TIDEGATE_PORT")
    if fixed and (not fixed.isdigit() or not 0 < int(fixed) <= LAST_PORT):
        raise StartFailed(f"TIDEGATE_PORT is {fixed!r}: give a number from 1 to {LAST_PORT}")
    for port in [int(fixed)] if fixed else range(FIRST_PORT, FIRST_PORT + PORTS):
        try:
            return socket.create_server((host, port), backlog=1024)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise StartFailed(f"cannot listen on {host}:{port} (TIDEGATE_HOST): {error.strerror}") from error
    if fixed:
        raise StartFailed(f"port {fixed} (TIDEGATE_PORT) is taken by another program; choose another one or unset it")
    raise StartFailed(f"no free port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1}; name one with TIDEGATE_PORT")


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
        port, state = plan.emulator, plan.data / "cluster" / "objects.json"
        state.parent.mkdir(parents=True, exist_ok=True)
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
    celery = ("celery", "--app", "config.celery", "--quiet")
    queues = ("--queues", "admission,release", "--concurrency", "2", "--loglevel", level)
    background = ("--queues", "background", "--pool", "solo", "--loglevel", level)
    quiet = ("--without-gossip", "--without-mingle")
    beat = ("--schedule", str(plan.data / "beat"), "--pidfile", "", "--loglevel", level)
    commands = {
        "web": python("stack.web", str(plan.web.fileno()), level),
        "worker": python(*celery, "worker", *queues, *quiet, "--hostname", "worker@demo"),
        "background": python(*celery, "worker", *background, *quiet, "--hostname", "background@demo"),
        "beat": python(*celery, "beat", *beat),
        "watcher": (sys.executable, str(ROOT / "manage.py"), "watch_clusters"),
    }
    # In a container people are root, and Celery's warning about that is nothing that they can act on.
    env = {**plan.env, "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges"}
    programs = [Program(name=name, command=command, env=env) for name, command in commands.items()]
    socket = (plan.web.fileno(),)
    programs[0] = replace(programs[0], ready=Ready(plan.address), sockets=socket)
    web = replace(programs[0], ready=lambda: True)
    return [*programs, *(replace(web, name=f"web-{number}") for number in range(2, web_processes() + 1))]


def web_processes() -> int:
    """Return how many processes answer on the socket: TIDEGATE_WEB_PROCESSES, or one for each of two cores."""
    given = os.environ.get("TIDEGATE_WEB_PROCESSES") or str(min(MOST_WEB, os.cpu_count() or 1))
    if not given.isdigit() or not 0 < int(given) <= MOST_WEB_GIVEN:
        raise StartFailed(f"TIDEGATE_WEB_PROCESSES is {given!r}: give a number from 1 to {MOST_WEB_GIVEN}")
    return int(given)


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
