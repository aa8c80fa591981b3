from datetime import timedelta
from itertools import islice
from threading import Thread

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from queues import services, snapshot
from queues.admission.world import JobShape, NodeState, Placed
from queues.heads import StoredHeads
from queues.models import Node, Task, Wave
from queues.waiting import first, milliseconds, span
from tests.queues.crowd import copy
from tests.queues.lab import MINUTE, NOW, Lab


def queries_and_rows() -> tuple[int, int]:
    snapshot.forget()
    with (
        CaptureQueriesContext(
            connection,
        ) as queries,
        snapshot.load(NOW) as (_, heads),
    ):
        pass
    return len([q for q in queries if "SAVEPOINT" not in q["sql"]]), heads.rows


def test_the_world_has_teams_with_quotas_queues_and_flavors_by_id(lab: Lab) -> None:
    lab.nlp.quotas.update(borrow_limit=0, lend_limit=4)

    with snapshot.load(NOW) as (world, _):
        pass

    team = next(team for team in world.teams if team.name == "nlp")
    assert [row.id for row in world.teams] == sorted(row.id for row in world.teams)
    assert (team.parent, team.weight, team.paused) == (lab.ai.id, 1000, False)
    assert [(q.flavor, q.guaranteed, q.borrow_limit, q.lend_limit) for q in team.quotas] == [(lab.h100.id, 16, 0, 4)]
    assert [(f.name, f.value) for f in world.flavors] == [("h100", 1000), ("l40s", 1000)]
    assert world.now == milliseconds(NOW)


def test_no_limit_and_none_differ(lab: Lab) -> None:
    lab.nlp.quotas.update(borrow_limit=None, lend_limit=0)

    with snapshot.load(NOW) as (world, _):
        pass

    quota = next(team for team in world.teams if team.name == "nlp").quotas[0]
    assert (quota.borrow_limit, quota.lend_limit) == (None, 0)


def test_heads_are_the_first_job_of_each_user_and_class(lab: Lab) -> None:
    first = lab.submit(lab.ann)
    lab.submit(lab.ann, now=NOW + MINUTE)
    other = lab.submit(lab.art, now=NOW + 2 * MINUTE)
    bigger = lab.submit(lab.ann, gpus="h100:4", now=NOW + 3 * MINUTE)

    with snapshot.load(NOW) as (world, heads):
        found = {c.id: [row.id for row in heads.users(c.id)] for c in world.classes}

    assert found == {first.job_class_id: [first.id, other.id], bigger.job_class_id: [bigger.id]}


def test_further_jobs_come_in_order_of_waiting_over_several_pages(lab: Lab) -> None:
    job = lab.submit(lab.ann)
    copy(job, 200)

    with snapshot.load(NOW) as (world, heads):
        (first,) = heads.users(world.classes[0].id)
        rest = list(heads.after(first.job_class, first.user, first))

    assert len(rest) == 200
    assert [row.wait_from for row in rest] == [milliseconds(NOW) + 1000 * number for number in range(1, 201)]


def test_jobs_that_wait_from_the_same_moment_are_all_found_once(lab: Lab) -> None:
    jobs = [lab.submit(lab.ann) for _ in range(40)]

    with snapshot.load(NOW) as (world, heads):
        (first,) = heads.users(world.classes[0].id)
        rest = list(heads.after(first.job_class, first.user, first))

    assert [row.id for row in (first, *rest)] == [job.id for job in jobs]


def test_held_and_ended_jobs_do_not_wait(lab: Lab) -> None:
    held, gone = lab.submit(), lab.submit()
    services.hold(uid=held.uid, by=lab.ann, now=NOW)
    services.cancel(uid=gone.uid, by=lab.ann, now=NOW)

    with snapshot.load(NOW) as (world, heads):
        pass

    assert world.classes == ()
    assert heads.classes == ()


def test_the_class_carries_what_its_jobs_ask_for(lab: Lab) -> None:
    lab.submit(shape="gang", tasks=3, gpus="h100:4", borrow=False)

    with snapshot.load(NOW) as (world, _):
        pass

    (job_class,) = world.classes
    (group,) = job_class.ask.groups
    assert (job_class.ask.shape, job_class.ask.borrow) == (JobShape.GANG, False)
    assert (group.tasks, group.units, group.flavors) == (3, 4, (lab.h100.id,))


def test_an_attempt_adds_up_its_tasks_by_node(lab: Lab) -> None:
    job = lab.submit(shape="gang", tasks=4, gpus="h100:2")
    wave = lab.start(job, lab.nodes[0], lab.nodes[1], now=NOW + MINUTE)

    with snapshot.load(NOW) as (world, _):
        pass

    (attempt,) = world.attempts
    assert (attempt.id, attempt.job, attempt.team, attempt.user) == (wave.id, job.id, lab.nlp.id, lab.ann.user.id)
    assert attempt.placed == (
        Placed(group=0, node=lab.nodes[0].id, tasks=2),
        Placed(group=0, node=lab.nodes[1].id, tasks=2),
    )
    assert attempt.groups[0].units == 2
    assert (attempt.since, attempt.leaving) == (milliseconds(NOW + MINUTE), False)


def test_tasks_that_have_ended_hold_nothing(lab: Lab) -> None:
    wave = lab.start(lab.submit(shape="independent", tasks=4, gpus="h100:1"), lab.nodes[0])
    done = list(wave.tasks.order_by("id").values_list("id", flat=True)[:3])
    Task.objects.filter(id__in=done).update(state="succeeded", ended_at=NOW)

    with snapshot.load(NOW) as (world, _):
        pass

    assert [placed.tasks for placed in world.attempts[0].placed] == [1]


def test_a_waves_sure_end_is_what_is_left_of_its_limit_and_its_grace(lab: Lab) -> None:
    job = lab.submit(time_limit="1h", grace="30s")
    lab.start(job, now=NOW)
    starting = lab.submit(time_limit="1h", grace="30s")
    lab.start(starting, now=NOW, running=False)
    lab.start(lab.submit(time_limit="none"), now=NOW)

    with snapshot.load(NOW) as (world, _):
        pass

    hour, grace, start = 60 * MINUTE, timedelta(seconds=30), job.queue.start_limit
    assert [a.ends_by and a.ends_by - milliseconds(NOW) for a in world.attempts] == [
        span(hour + grace),
        span(start + hour + grace),
        None,
    ]


@pytest.mark.usefixtures("lab")
def test_nodes_have_a_state_and_what_others_use() -> None:
    Node.objects.filter(name="h0").update(cordoned=True)
    Node.objects.filter(name="h1").update(ready=False)
    Node.objects.filter(name="h2").update(tainted=True)
    Node.objects.filter(name="h3").update(outside_units=3, outside_pods=2)
    Node.objects.filter(name="l0").update(gone_at=NOW)

    with snapshot.load(NOW) as (world, _):
        pass

    nodes = {node.name: node for node in world.nodes}
    states = {name: node.state for name, node in nodes.items()}
    assert states == {
        "h0": NodeState.CORDONED,
        "h1": NodeState.LOST,
        "h2": NodeState.CORDONED,
        "h3": NodeState.READY,
        "l1": NodeState.READY,
    }
    assert (nodes["h3"].outside_units, nodes["h3"].outside_pods) == (3, 2)


def test_a_node_that_has_left_stays_in_the_world_while_tasks_of_ours_are_on_it(lab: Lab) -> None:
    lab.start(lab.submit(), lab.nodes[0])
    Node.objects.filter(id=lab.nodes[0].id).update(gone_at=NOW)

    with snapshot.load(NOW) as (world, _):
        pass

    assert next(node.state for node in world.nodes if node.name == "h0") is NodeState.LOST


def test_queries_and_rows_do_not_grow_with_the_backlog(lab: Lab) -> None:
    job = lab.submit(lab.ann)
    lab.submit(lab.art)
    few = queries_and_rows()

    copy(job, 5000)
    many = queries_and_rows()

    assert many == few
    assert few[1] == 2


def test_queries_do_not_grow_with_waves_nodes_and_teams(lab: Lab) -> None:
    lab.start(lab.submit())
    few, _ = queries_and_rows()

    for _ in range(5):
        lab.start(lab.submit(lab.carl, team="cv"))
    many, _ = queries_and_rows()

    assert many == few


def test_heads_of_a_hundred_thousand_jobs_are_read_from_the_index_alone(lab: Lab) -> None:
    job = lab.submit(lab.ann)
    lab.submit(lab.art)
    lab.submit(lab.ann, gpus="h100:4")
    copy(job, 100_000)

    with CaptureQueriesContext(connection) as queries:
        heads = StoredHeads(first())
        (head, _) = heads.users(job.job_class_id)
        list(islice(heads.after(head.job_class, head.user, head), 10))
    plans = []
    for query in queries:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, TIMING OFF) " + query["sql"])
            plans.append("\n".join(row[0] for row in cursor.fetchall()))

    assert len(plans) == 2
    assert all("job_heads" in plan for plan in plans), plans
    assert not any("Seq Scan" in plan for plan in plans), plans
    assert heads.rows == 3 + 32


def test_equal_worlds_have_equal_digests(lab: Lab) -> None:
    job = lab.submit()

    def digest() -> str:
        with snapshot.load(NOW) as seen:
            return snapshot.digest(seen)

    before, again = digest(), digest()
    services.cancel(uid=job.uid, by=lab.ann, now=NOW)
    after = digest()

    assert before == again
    assert after != before


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_does_not_see_what_is_committed_after_it_was_opened() -> None:
    lab = Lab()
    lab.submit(lab.ann)

    def submit_another() -> None:
        lab.submit(lab.art)
        connections.close_all()

    with snapshot.load(NOW) as (world, heads):
        other = Thread(target=submit_another)
        other.start()
        other.join()
        (first,) = heads.users(world.classes[0].id)
        rest = list(heads.after(first.job_class, first.user, first))
        waves = Wave.objects.count()

    assert (rest, waves) == ([], 0)
