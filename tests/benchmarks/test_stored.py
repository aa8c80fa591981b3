"""The benchmarks on PostgreSQL in a tiny form."""

import pytest
from django.db import connection

from queues.benchmarks import stored
from queues.benchmarks.results import Setting
from queues.models import Job, Wave

TINY = Setting(data=None, seed=1, part=40)


@pytest.mark.django_db
def test_a_turn_with_a_small_backlog_is_measured_and_scans_no_growing_table() -> None:
    rows = {row.name: row.value for row in stored.turns(TINY, [(4_000, 160)])}

    assert 0 < rows["decide-stored/100/4/first/started"] <= Wave.objects.count()
    assert Job.objects.filter(ready=True).exists()
    assert {f"decide-stored/100/4/{stage}/p99" for stage in ("turn", "load", "decide", "apply")} <= set(rows)
    assert rows["decide-stored/100/4/statements"] > 0


@pytest.mark.django_db
def test_a_statement_that_reads_a_growing_table_whole_is_noticed() -> None:
    watched = stored.Watched()

    with connection.execute_wrapper(watched):
        list(Job.objects.filter(name="nobody").order_by("grace"))

    assert (watched.statements, len(watched.scans)) == (1, 1)
