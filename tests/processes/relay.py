"""A relay before a server's port that can go dark: no byte, no end and no refusal, as where a cable was pulled."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Relay:
    """Passes bytes on to a port of this machine; a connection that has met the dark stays dead for ever."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._dark = threading.Event()
        # How many connections came while it was dark: somebody had given up an old one.
        self.waiting = 0
        self._thread = threading.Thread(target=self._accept, name="relay", daemon=True)

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self._listening.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._thread.join()

    def darken(self) -> None:
        """Swallow all that comes from now on."""
        self._dark.set()

    def light(self) -> None:
        """Serve new connections again."""
        self._dark.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                self._open.append(client)
            if self._dark.is_set():
                self.waiting += 1
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._upstream))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open.append(server)
            dead = threading.Event()
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, target, dead), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, dead: threading.Event) -> None:
        with suppress(OSError):
            while some := source.recv(65536):
                if self._dark.is_set():
                    dead.set()
                if not dead.is_set():
                    target.sendall(some)
        if not dead.is_set():
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)
