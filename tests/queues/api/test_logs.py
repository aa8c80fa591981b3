"""Logs over HTTP: what is told of them, to whom, at what cost."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from queue import SimpleQueue
from typing import Any, cast

import pytest
from django.db import connection
from django.test import AsyncClient

from clusters.port import Cluster, Log, NotThere, Refused, Silent, Unreachable
from queues import fleet
from queues.api import logs
from queues.models import Job, KeptLog, Task
from tenants.models import Membership
from tests.queues.lab import NOW, Lab

pytestmark = pytest.mark.django_db(transaction=True)
EVENTS = {"Accept": "text/event-stream"}


def at(second: int, text: str) -> bytes:
    return f"2026-11-29T12:00:{second:02d}.000000000Z {text}\n".encode()


class Spoken:
    """A log into which a test speaks; it waits for more until it is ended or shut."""

    def __init__(self, *said: bytes, over: bool = True) -> None:
        self.said: SimpleQueue[bytes | None] = SimpleQueue()
        self.was_shut = threading.Event()
        for chunk in said:
            self.said.put(chunk)
        if over:
            self.said.put(None)

    def chunks(self) -> Iterator[bytes]:
        while (chunk := self.said.get(timeout=60)) is not None:
            yield chunk

    def shut(self) -> None:
        self.was_shut.set()
        self.said.put(None)


class Fake:
    """A cluster that gives these answers in order."""

    def __init__(self, *answers: Spoken | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def logs(self, namespace: str, pod: str, **how: Any) -> Log:  # noqa: ANN401  the port's options
        self.asked.append({"namespace": namespace, "pod": pod, **how})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def lab() -> Lab:
    return Lab()


Say = Callable[..., Fake]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Let the cluster's pods say something."""

    def told(*answers: Spoken | Exception) -> Fake:
        fake = Fake(*answers)
        monkeypatch.setattr(fleet, "clusters", lambda: {"default": cast("Cluster", fake)})
        return fake

    return told


def running(lab: Lab, **spec: Any) -> Job:  # noqa: ANN401  fields of a spec
    job = lab.submit(**spec)
    wave = lab.start(job)
    for task in wave.tasks.all():
        Task.objects.filter(id=task.id).update(pod=f"pod-{task.index}", bound=True)
    return job


def fail(job: Job, index: int = 0) -> Task:
    task = Task.objects.get(wave__job=job, index=index)
    Task.objects.filter(id=task.id).update(state="failed", ended_at=NOW, exit_code=1)
    return task


def browser(lab: Lab) -> AsyncClient:
    client = AsyncClient()
    client.force_login(lab.ann.user)
    return client


def get(client: AsyncClient, job: Job, query: str = "", **headers: str) -> tuple[int, str]:
    """Ask for a log and read it to its end."""

    async def walk() -> tuple[int, str]:
        answer = await client.get(f"/api/v1/jobs/{job.uid}/logs{query}", headers=headers)
        if not answer.streaming:
            return answer.status_code, answer.content.decode()
        parts = [part async for part in pieces(answer)]
        answer.close()
        return answer.status_code, "".join(parts)

    return asyncio.run(walk())


async def pieces(answer: Any) -> AsyncIterator[str]:  # noqa: ANN401  a streaming answer
    async for part in answer.streaming_content:
        yield part.decode()


def messages(text: str) -> list[tuple[str, Any]]:
    """Return server-sent events as names and values; comments are passed over."""
    found = []
    for block in filter(None, text.split("\n\n")):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_the_tail_is_plain_text_without_the_times(lab: Lab, say: Say) -> None:
    fake = say(Spoken(at(1, "one") + at(2, "two")))

    status, text = get(browser(lab), running(lab))

    assert (status, text) == (200, "one\ntwo\n")
    assert (fake.asked[0]["namespace"], fake.asked[0]["pod"], fake.asked[0]["tail"]) == ("team-nlp", "pod-0", 501)
    assert logs.seats.total() == 0


def test_older_lines_that_are_cut_are_said_to_be(lab: Lab, say: Say) -> None:
    say(Spoken(at(1, "one") + at(2, "two") + at(3, "three")))

    assert get(browser(lab), running(lab), "?tail=2")[1] == "[tidegate] Older lines are cut.\ntwo\nthree\n"


def test_times_come_where_asked(lab: Lab, say: Say) -> None:
    say(Spoken(at(1, "one")))

    assert get(browser(lab), running(lab), "?timestamps=true")[1] == at(1, "one").decode()


def test_without_a_choice_it_is_the_first_failed_task_of_the_newest_attempt(lab: Lab, say: Say) -> None:
    job = running(lab, shape="gang", tasks=4)
    fail(job, 2)
    fake = say(Spoken(), Spoken())

    get(browser(lab), job)
    get(browser(lab), job, "?task=3&container=side&previous=true")

    assert [ask["pod"] for ask in fake.asked] == ["pod-2", "pod-3"]
    assert (fake.asked[1]["container"], fake.asked[1]["previous"]) == ("side", True)


def test_a_task_that_is_not_there_is_named(lab: Lab, say: Say) -> None:
    say()

    status, text = get(browser(lab), running(lab), "?task=9")

    assert (status, json.loads(text)["detail"]) == (404, "This job has no task 9.")


@pytest.mark.parametrize("query", ["?tail=-1", "?tail=10001", "?tail=x", "?since=yesterday", "?task=-1", "?tall=5"])
def test_what_cannot_be_asked_is_refused(lab: Lab, say: Say, query: str) -> None:
    say()

    assert get(browser(lab), running(lab), query)[0] in {400, 422}


def test_a_followed_log_goes_on_where_its_tail_ended_and_over_silence(lab: Lab, say: Say) -> None:
    fake = say(Spoken(at(1, "one")), Silent("nothing yet"), Spoken(at(1, "one") + at(2, "two")))

    text = get(browser(lab), running(lab), "?follow=true", **EVENTS)[1]

    assert messages(text) == [("message", ["one"]), ("message", ["two"]), ("end", {"ended": False})]
    assert "id: 2026-11-29T12:00:02.000000000Z\n" in text
    assert [ask["follow"] for ask in fake.asked] == [False, True, True]
    assert fake.asked[1]["since"] == NOW.replace(second=1)


def test_a_broken_stream_is_taken_up_behind_its_last_line(lab: Lab, say: Say) -> None:
    fake = say(Spoken(at(1, "one") + at(2, "two")), Spoken())

    text = get(
        browser(lab), running(lab), "?follow=true", **{**EVENTS, "Last-Event-ID": "2026-11-29T12:00:01.000000000Z"}
    )[1]

    assert messages(text)[0] == ("message", ["two"])
    assert fake.asked[0]["tail"] is None


def test_a_carriage_return_survives_the_stream(lab: Lab, say: Say) -> None:
    say(Spoken(at(1, "10%\r20%")))

    assert messages(get(browser(lab), running(lab), "", **EVENTS)[1])[0] == ("message", ["10%\r20%"])


def test_of_a_pod_that_is_gone_the_kept_lines_are_told(lab: Lab, say: Say) -> None:
    job = running(lab)
    KeptLog.objects.create(task=fail(job), until=NOW, kept_at=NOW, text="boom\n", cut=True)
    say(NotThere("not found"), NotThere("not found"))

    status, text = get(browser(lab), job)
    events = messages(get(browser(lab), job, **EVENTS)[1])

    assert status == 200
    assert text == (
        "[tidegate] Its pod is gone. These are the last lines, kept when the task failed.\n"
        "[tidegate] Older lines are cut.\nboom\n"
    )
    assert [name for name, _ in events] == ["note", "note", "message", "end"]
    assert (events[0][1]["code"], events[-1][1]) == ("kept", {"ended": True})


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotThere("not found"), 404, "log_gone"),
        (Refused("container is waiting to start: ContainerCreating"), 409, "log_not_yet"),
        (Unreachable("no answer"), 503, "cluster_unreachable"),
    ],
)
def test_why_there_is_no_log_is_an_error_or_in_a_stream_a_note(
    lab: Lab, say: Say, error: Exception, status: int, code: str
) -> None:
    job = running(lab)
    say(error, error)

    told = get(browser(lab), job)
    events = messages(get(browser(lab), job, **EVENTS)[1])

    assert (told[0], json.loads(told[1])["code"]) == (status, code)
    assert [(name, value.get("code")) for name, value in events] == [("note", code), ("end", None)]
    assert logs.seats.total() == 0


def test_a_task_without_a_pod_says_what_it_waits_for(lab: Lab, say: Say) -> None:
    job = running(lab)
    Task.objects.update(state="pending", started_at=None, bound=False, message="0/4 nodes are available")
    say()

    status, text = get(browser(lab), job)

    assert (status, json.loads(text)["detail"]) == (409, "Task 0 has no pod: 0/4 nodes are available.")


def test_nobody_can_open_more_than_some_at_once(lab: Lab, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOGS_PER_USER", 0)
    say()

    status, text = get(browser(lab), running(lab))

    assert (status, json.loads(text)["code"]) == (429, "too_many_logs")


def test_while_a_log_is_followed_no_connection_is_held_and_who_leaves_ends_it(lab: Lab, say: Say) -> None:
    follow = Spoken(at(2, "two"), over=False)
    say(Spoken(at(1, "one")), follow)
    job, client = running(lab), browser(lab)
    connection.close()

    async def walk() -> tuple[list[str], int]:
        before = await asyncio.to_thread(_sessions)
        answer = await client.get(f"/api/v1/jobs/{job.uid}/logs?follow=true")
        stream = pieces(answer)
        seen = [await anext(stream), await anext(stream)]
        busy, deadline = 1, time.monotonic() + 60
        while busy > 0 and time.monotonic() < deadline:
            busy = await asyncio.to_thread(_sessions) - before
        await asyncio.to_thread(answer.close)
        return seen, busy

    seen, busy = asyncio.run(walk())

    assert seen == ["one\n", "two\n"]
    assert busy <= 0
    assert follow.was_shut.wait(60)
    assert logs.seats.total() == 0


def test_who_loses_the_team_loses_the_log(lab: Lab, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHECK_SECONDS", 0.0)
    follow = Spoken(over=False)
    say(Spoken(at(1, "one")), follow)
    job, client = running(lab), browser(lab)

    async def walk() -> str:
        answer = await client.get(f"/api/v1/jobs/{job.uid}/logs?follow=true", headers=EVENTS)
        stream = pieces(answer)
        first = await anext(stream)
        await asyncio.to_thread(_leave_team, lab)
        rest = [part async for part in stream]
        await asyncio.to_thread(answer.close)
        return first + "".join(rest)

    told = messages(asyncio.run(walk()))

    assert told[-2][1]["code"] == "bye"
    assert follow.was_shut.wait(60)


def test_an_endless_answer_is_cut(lab: Lab, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 10)
    say(Spoken(*[at(n, "x" * 9) for n in range(10)]))

    text = get(browser(lab), running(lab), "?tail=all")[1]

    assert text == f"{'x' * 9}\n{'x' * 9}\n[tidegate] Cut here: ask again for what follows.\n"


def _leave_team(lab: Lab) -> None:
    Membership.objects.filter(user=lab.ann.user).delete()
    connection.close()


def _sessions() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        count = int(cursor.fetchone()[0])
    connection.close()
    return count
