"""The emulator as a whole: parts put together, served over HTTP in this thread or in one of its own."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
import yaml

from clusters.emulator import clock
from clusters.emulator.agenda import Agenda
from clusters.emulator.app import App
from clusters.emulator.claims import Claims
from clusters.emulator.core import Core
from clusters.emulator.events import Recorder
from clusters.emulator.garbage import Garbage, Namespaces
from clusters.emulator.jobs import Jobs
from clusters.emulator.journal import Journal
from clusters.emulator.kinds import BUILT_IN, KINDS, NAMESPACES, NODES
from clusters.emulator.kubelet import Kubelets
from clusters.emulator.nodes import DEFAULT_PATIENCE, Nodes
from clusters.emulator.podcalls import PodCalls
from clusters.emulator.quotas import Quotas
from clusters.emulator.registry import Registry
from clusters.emulator.scheduler import Scheduler
from clusters.emulator.store import OLDEST_KEPT, Store
from clusters.emulator.verbs import Verbs
from clusters.emulator.world import NodeGroup, bodies

VERSION = "v1.37.2"
_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_KEEP_ALIVE = 120
_START_LIMIT = 30.0


class Emulator:
    """A small Kubernetes API server with nodes; a context manager that serves from a thread of its own.

    ``token`` empty asks nobody who they are; ``state`` is a file that outlives the process; ``history`` is how many
    changes of a kind a watch can go back; ``patience`` how many seconds a silent node stays ready; ``installed`` serves
    the kinds of job that people install too, which it only stores. Raise OSError for a port that is taken, StateError
    for a state that is in use or none.
    """

    def __init__(
        self,
        *,
        nodes: Iterable[NodeGroup] = (),
        token: str = "",
        state: Path | None = None,
        port: int = 0,
        history: int = OLDEST_KEPT,
        patience: float = DEFAULT_PATIENCE,
        installed: bool = False,
    ) -> None:
        """Take the port at once, so that ``url`` is known; serve later."""
        self.token = token
        self._nodes = tuple(nodes)
        self._patience = patience
        self._installed = installed
        self._store = Store(keep=history)
        with contextlib.ExitStack() as undo:
            self._socket = undo.enter_context(_listening(port))
            self._journal = contextlib.nullcontext() if state is None else Journal(self._store, state)
            undo.pop_all()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._app: App | None = None

    def __enter__(self) -> Self:
        """Serve from a thread and return when the API answers."""
        self._thread = threading.Thread(target=self.run, name="emulator", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_LIMIT):
            raise TimeoutError("the emulator did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until stopped or interrupted; call ``ready`` once the API answers."""
        asyncio.run(self._serve(ready))

    def stop(self) -> None:
        """Ask the server to stop, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def compact(self) -> None:
        """Forget every past change, so that older positions are answered with 410."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_call(self._store.forget), self._loop).result(_START_LIMIT)

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads here and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "emulator",
            "clusters": [{"name": "emulator", "cluster": {"server": self.url}}],
            "users": [{"name": "emulator", "user": {"token": self.token} if self.token else {}}],
            "contexts": [{"name": "emulator", "context": {"cluster": "emulator", "user": "emulator"}}],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file, sort_keys=False)
        return path

    def _end(self) -> None:
        if self._app is not None:
            self._app.close()
        if self._server is not None:
            self._server.should_exit = True

    async def _serve(self, ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        core = Core(store=self._store, agenda=Agenda(self._loop), clock=clock.now)
        with self._journal, contextlib.closing(core.agenda):
            served = KINDS if self._installed else BUILT_IN
            parts = _assemble(core, self._nodes, patience=self._patience)
            self._app = App(*parts, token=self.token, version=VERSION, served=served)
            config = uvicorn.Config(
                self._app,
                lifespan="off",
                log_config=None,
                access_log=False,
                log_level="warning",
                server_header=False,
                date_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=1,
                ws="none",
            )
            self._server = _Server(config, self._app)
            self._ready.set()
            ready()
            await self._server.serve(sockets=[self._socket])


def _listening(port: int) -> socket.socket:
    """Return a socket that listens on this machine only."""
    # With the protocol named, asyncio sets TCP_NODELAY; without it every answer waits 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(1024)
    except BaseException:
        listening.close()
        raise
    return listening


class _Server(uvicorn.Server):
    """Uvicorn that ends its streams before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close streams, then connections."""
        self._app.close()
        await super().shutdown(sockets)


def _assemble(core: Core, nodes: Iterable[NodeGroup], *, patience: float) -> tuple[Verbs, PodCalls]:
    """Put the parts together and start from what the store holds; return those that answer calls."""
    registry = Registry(core, Quotas(core))
    recorder = Recorder(core)
    jobs = Jobs(registry, recorder)
    kubelets = Kubelets(registry, recorder)
    claims = Claims(registry, recorder)
    scheduler = Scheduler(registry, recorder, claims)
    lifecycle = Nodes(registry, recorder, patience=patience)
    garbage = Garbage(registry)
    namespaces = Namespaces(registry)
    for part in (claims, scheduler, lifecycle, kubelets, jobs, garbage, namespaces):
        part.resume()
    if not core.store.bodies(NAMESPACES):
        for name in _FIRST_NAMESPACES:
            registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        for body in bodies(nodes):
            registry.create(NODES, "", body)
    return Verbs(registry), PodCalls(registry, kubelets)


async def _call(work: Callable[[], None]) -> None:
    work()
