"""Hints that something changed: to the loop (wake up) and to open pages (look again).

PostgreSQL is the truth: a lost hint costs seconds, never a wrong answer. Both are sent after commit only, and a broker
that is gone is passed over, since beat and polling find the change anyway.
"""

from __future__ import annotations

import logging
from functools import lru_cache

import redis
from django.conf import settings
from django.db import connection, transaction

log = logging.getLogger(__name__)

CHANNEL = "tidegate:hints"
SECONDS = 2.0


@lru_cache(maxsize=1)
def broker() -> redis.Redis:
    """Return this process's connection pool to Redis."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)


def wake() -> None:
    """After commit: bump the loop's version, then ask a worker for a cycle. Many calls become one cycle."""
    transaction.on_commit(_wake, robust=True)


def _wake() -> None:
    bump()
    from queues.tasks import admit  # noqa: PLC0415  tasks import the loop, which imports this

    try:
        admit.apply_async(ignore_result=True, retry=False)
    except Exception:  # whatever a broker's client raises: beat is the net
        log.warning("no broker to wake the loop; the next beat finds the change", exc_info=True)


def bump() -> None:
    """Move the loop's wanted version on; a sequence, so that it neither locks nor rolls back."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('queues_wakeup')")


def version() -> int:
    """Return the loop's wanted version."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM queues_wakeup")
        return int(cursor.fetchone()[0])


def tell_pages(*topics: str) -> None:
    """After commit: tell open pages which topics to look at again (``jobs``, ``nodes``, ``team:nlp``, ``job:<uid>``)."""
    transaction.on_commit(lambda: _publish(topics), robust=True)


def _publish(topics: tuple[str, ...]) -> None:
    try:
        pipe = broker().pipeline(transaction=False)
        for topic in topics:
            pipe.publish(CHANNEL, topic)
        pipe.execute()
    except redis.RedisError:
        log.warning("no broker to tell pages; they poll", exc_info=True)
