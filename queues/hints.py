"""Hints that something changed: to the loop (wake up) and to open pages (look again).

PostgreSQL is the truth: a lost hint costs seconds, never a wrong answer. All are sent after commit only, and a broker
that is gone is passed over, since beat and polling find the change anyway.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial

import redis
from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from kombu.exceptions import KombuError

log = logging.getLogger(__name__)

CHANNEL = "tidegate:hints"
SECONDS = 2.0
# How long a broker that did not answer is left alone, so that not every request waits for it.
PAUSE_SECONDS = 5.0
ASKED_MS = 1000

_alone_until = 0.0


@lru_cache(maxsize=1)
def broker() -> redis.Redis:
    """Return this process's connection pool to Redis."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)


def wake() -> None:
    """After commit: bump the loop's version, then ask a worker for a cycle. Many calls become one cycle."""
    transaction.on_commit(_wake, robust=True)


def _wake() -> None:
    bump()
    _send(lambda: _ask("queues.admit"))


def tell_clusters() -> None:
    """After commit: ask a worker to tell the clusters what is due."""
    transaction.on_commit(lambda: _send(lambda: _ask("queues.release")), robust=True)


def ask_for_all() -> None:
    """Ask for a cycle, and for the clusters to be told; the database is left alone."""
    for task in ("queues.admit", "queues.release"):
        _send(partial(_ask, task))


def tell_pages(*topics: str) -> None:
    """After commit: tell open pages which topics to look at again.

    Topics are ``jobs``, ``queue``, ``nodes``, ``decisions``, ``team:<name>`` and ``job:<uid>``.
    """
    transaction.on_commit(lambda: _send(lambda: _publish(topics)), robust=True)


def bump() -> None:
    """Move the loop's wanted version on; a sequence, so that it neither locks nor rolls back."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('queues_wakeup')")


def version() -> int:
    """Return the loop's wanted version."""
    with connection.cursor() as cursor:
        # Of a new sequence the first value is the last one too: only is_called tells whether it was taken.
        cursor.execute("SELECT last_value + is_called::int FROM queues_wakeup")
        return int(cursor.fetchone()[0])


def heard(task: str) -> None:
    """Tell, as a task begins, that whoever asks from now on wants another one."""
    with suppress(redis.RedisError, OSError):
        broker().delete(_asked(task))


def _ask(task: str) -> None:
    # One message at a time: what is asked before it is heard is seen by the run that it starts. A mark that outlives
    # its message (a broker that restarts, a worker that dies) is over in a second.
    # Celery's client tries for seconds to reach a broker that is gone; ours knows at once.
    if broker().set(_asked(task), 1, nx=True, px=ASKED_MS):
        current_app.send_task(task, ignore_result=True, retry=False, expires=settings.TIDEGATE_TICK_SECONDS)


def _asked(task: str) -> str:
    return f"tidegate:asked:{task}"


def _publish(topics: tuple[str, ...]) -> None:
    pipe = broker().pipeline(transaction=False)
    for topic in topics:
        pipe.publish(CHANNEL, topic)
    pipe.execute()


def _send(say: Callable[[], None]) -> None:
    global _alone_until  # noqa: PLW0603  a process has one broker
    if time.monotonic() < _alone_until:
        return
    try:
        say()
    except (redis.RedisError, KombuError, OSError) as error:
        _alone_until = time.monotonic() + PAUSE_SECONDS
        log.warning("no broker for hints (%s); beat and polling find the change", error)
