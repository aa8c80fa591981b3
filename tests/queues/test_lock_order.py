"""Jobs are locked before their waves, everywhere: the outbox and reconcile meet on the same rows."""

import time
from threading import Thread
from unittest.mock import Mock

import pytest
from django.db import connection, connections, transaction

from queues.models import Job, Wave
from queues.release import Fences, release_due
from tests.queues.lab import NOW, Lab

pytestmark = pytest.mark.django_db(transaction=True)


def until_somebody_waits_for_us() -> None:
    deadline = time.monotonic() + 60
    while True:
        with connection.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))")
            if cursor.fetchone()[0]:
                return
        assert time.monotonic() < deadline, "nobody came to wait"
        time.sleep(0.01)


def test_the_outbox_holds_no_wave_while_it_waits_for_its_job(lab: Lab) -> None:
    wave = lab.start(lab.submit(), running=False)
    Wave.objects.filter(id=wave.id).update(launched_at=None, wish="launch", wish_due_at=NOW)
    told: list[int] = []

    def release() -> None:
        try:
            told.append(release_due(lambda: NOW, clusters={"default": Mock()}, fences=Fences()))
        finally:
            connections.close_all()

    with transaction.atomic():
        Job.objects.select_for_update().get(id=wave.job_id)
        outbox = Thread(target=release)
        outbox.start()
        until_somebody_waits_for_us()
        Wave.objects.select_for_update(nowait=True).get(id=wave.id)
    outbox.join(60)

    assert told == [1]
