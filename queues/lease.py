"""Who follows a cluster: one process holds the lease in the cluster's row and renews it; the others stand by.

The lease runs by PostgreSQL's clock. A process that dies, freezes, or loses its machine or its database stops to renew
it, and within seconds another one follows; what the first one still had in hand it drops when it wakes, for it saw a
cluster that has changed since.
"""

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, connections
from django.db.models import Q
from django.db.models.functions import Now

from queues.models import ClusterState

log = logging.getLogger(__name__)

LASTS_SECONDS = 5.0
RENEW_SECONDS = 1.0
# What a process that freezes in a transaction has locked is free again after so long.
FROZEN_SECONDS = 30


class Lost(Exception):
    """The lease ran out before a statement that needs it."""


class Lease:
    """One process's claim to follow a cluster."""

    def __init__(self, cluster: str) -> None:
        """Hold nothing yet."""
        self.cluster = cluster
        self.holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._until = 0.0

    @property
    def mine(self) -> bool:
        """Whether the lease is surely held now."""
        return time.monotonic() < self._until

    @contextmanager
    def sought(self) -> Iterator[None]:
        """Seek the lease, and renew it, in a thread of its own for as long as the block lasts; then give it up."""
        over = Event()
        thread = Thread(target=self._seek, args=(over,), name=f"lease-{self.cluster}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Let this thread's statements pass only while the lease is surely held, else raise Lost."""
        with connection.execute_wrapper(self._guard):
            with connection.cursor() as cursor:
                cursor.execute(f"SET idle_in_transaction_session_timeout = '{FROZEN_SECONDS}s'")
            yield

    def renew(self) -> bool:
        """Take the lease where it is free or ours already; return whether it is ours."""
        asked = time.monotonic()
        ClusterState.objects.get_or_create(name=self.cluster)
        free = Q(leader=self.holder) | Q(leads_until=None) | Q(leads_until__lt=Now())
        rows = ClusterState.objects.filter(free, name=self.cluster)
        mine = bool(rows.update(leader=self.holder, leads_until=Now() + timedelta(seconds=LASTS_SECONDS)))
        if mine and not self.mine:
            log.info("following cluster %s", self.cluster)
        self._until = asked + LASTS_SECONDS if mine else 0.0
        return mine

    def give_up(self) -> None:
        """Let the next one follow at once."""
        self._until = 0.0
        ClusterState.objects.filter(name=self.cluster, leader=self.holder).update(leader="", leads_until=None)

    def _guard(self, execute: Callable[..., Any], *statement: Any) -> Any:  # noqa: ANN401  as Django calls wrappers
        if not self.mine:
            raise Lost(f"the lease of cluster {self.cluster} has run out")
        return execute(*statement)

    def _seek(self, over: Event) -> None:
        try:
            while not over.is_set():
                close_old_connections()
                try:
                    self.renew()
                except DatabaseError as error:
                    log.warning("the lease of cluster %s: %s", self.cluster, error)
                over.wait(RENEW_SECONDS)
            with suppress(DatabaseError):
                self.give_up()
        finally:
            connections.close_all()
