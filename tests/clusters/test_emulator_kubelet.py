"""The kubelets that pretend: starts, ends, grace, logs."""

import http.client
from urllib.parse import urlsplit

from tests.clusters.emulator_kit import Object, Talk, condition, job, pod, until

FOREVER = {"forever": "1"}


def _running(talk: Talk, name: str) -> Object:
    return until(lambda: body if (body := talk.get(f"{talk.pods}/{name}"))["status"]["phase"] == "Running" else None)


def test_a_pod_waits_as_long_as_its_annotation_says(talk: Talk) -> None:
    talk.make(talk.pods, pod("late", gpus=0, wishes={"start-after": "1h"}))
    until(lambda: talk.get(f"{talk.pods}/late")["spec"].get("nodeName"))
    talk.make(talk.pods, pod("soon", gpus=0, wishes={"start-after": "400ms"}))

    _running(talk, "soon")

    assert talk.get(f"{talk.pods}/late")["status"]["phase"] == "Pending"


def test_a_pod_that_no_job_owns_runs_on(talk: Talk) -> None:
    talk.make(talk.pods, pod("alone", gpus=0, wishes={"run-for": "1ms"}))
    talk.make(talk.jobs, job("j", gpus=0, wishes={"run-for": "1ms"}))

    talk.job_over("j")

    assert _running(talk, "alone")


def test_a_pod_that_never_starts_says_why_and_stays_pending(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, wishes={"never-start": "ErrImagePull"}))

    found = until(
        lambda: pods[0] if (pods := talk.pods_of("j")) and pods[0]["status"].get("containerStatuses") else None
    )

    waiting = found["status"]["containerStatuses"][0]["state"]["waiting"]
    assert (found["status"]["phase"], waiting["reason"]) == ("Pending", "ErrImagePull")
    talk.drop(f"{talk.jobs}/j", propagationPolicy="Background")
    until(lambda: not talk.pods_of("j"))


def test_an_exit_code_that_is_no_number_is_a_failure(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, wishes={"exit-code": "boom"}))

    assert talk.job_over("j", "Failed")["status"]["failed"] == 1


def test_a_deleted_pod_ends_at_once(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=0))
    _running(talk, "p")

    leaving = talk.drop(f"{talk.pods}/p")

    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" in leaving["metadata"]
    until(lambda: talk.gone(f"{talk.pods}/p"), within=25)


def test_a_pod_that_ignores_the_signal_uses_its_grace_unless_it_is_shortened(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=0, wishes={"ignore-term": "1"}))
    _running(talk, "p")

    talk.drop(f"{talk.pods}/p")
    position = talk.get(talk.pods)["metadata"]["resourceVersion"]
    still = talk.get(f"{talk.pods}/p")
    talk.drop(f"{talk.pods}/p", gracePeriodSeconds=1)

    assert still["status"]["phase"] == "Running"
    until(lambda: talk.gone(f"{talk.pods}/p"), within=25)
    last = [event["object"] for event in talk.watch(f"{talk.pods}?resourceVersion={position}", seconds=1)][-1]
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_forced_deletion_leaves_nothing(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=0, wishes={"ignore-term": "1"}))
    _running(talk, "p")

    talk.drop(f"{talk.pods}/p?gracePeriodSeconds=0")

    assert talk.gone(f"{talk.pods}/p")


def test_a_pod_without_a_node_needs_no_grace(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", schedulingGates=[{"name": "a"}]))

    talk.drop(f"{talk.pods}/p")

    assert talk.gone(f"{talk.pods}/p")


def test_an_eviction_marks_and_deletes_the_pod(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=0, wishes={"ignore-term": "1"}))
    _running(talk, "p")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": talk.namespace}}

    status, _ = talk.ask("POST", f"{talk.pods}/p/eviction", eviction)

    found = talk.get(f"{talk.pods}/p")
    assert status == 201
    assert condition(found, "DisruptionTarget", "reason") == "EvictionByEvictionAPI"
    assert "deletionTimestamp" in found["metadata"]


def test_a_log_tells_start_progress_and_end(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, wishes={"run-for": "50ms", "exit-code": "3"}))
    talk.job_over("j", "Failed")
    path = f"{talk.pods}/{talk.pods_of('j')[0]['metadata']['name']}/log"

    lines = talk.ask("GET", path)[1].splitlines()

    assert lines[0].startswith("start j-0-")
    assert lines[1:-1] == [f"step {n} {n}0% loss={4 / (1 + n):.3f}" for n in range(1, 11)]
    assert lines[-1] == "end exit code 3"
    assert talk.ask("GET", f"{path}?tailLines=1")[1] == "end exit code 3\n"
    assert talk.ask("GET", f"{path}?tailLines=0")[1] == ""
    assert talk.ask("GET", f"{path}?limitBytes=5")[1] == "start"
    assert talk.ask("GET", f"{path}?timestamps=true&tailLines=1")[1][4] == "-"


def test_a_followed_log_goes_on_until_the_pod_ends(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, wishes={"run-for": "2s"}))
    found = until(lambda: [each for each in talk.pods_of("j") if each["status"]["phase"] != "Pending"])
    name = found[0]["metadata"]["name"]
    connection = http.client.HTTPConnection(urlsplit(talk.emulator.url).netloc, timeout=60)

    connection.request(
        "GET", f"{talk.pods}/{name}/log?follow=true", headers={"Authorization": f"Bearer {talk.emulator.token}"}
    )
    answer = connection.getresponse()
    first = answer.readline()
    rest = answer.read().decode().splitlines()
    connection.close()

    assert answer.headers["transfer-encoding"] == "chunked"
    assert first.startswith(b"start j-0-")
    assert len(rest) == 11
    assert rest[-1] == "end exit code 0"


def test_a_followed_log_ends_when_the_pod_is_deleted(talk: Talk) -> None:
    talk.make(talk.pods, pod("p", gpus=0))
    _running(talk, "p")
    connection = http.client.HTTPConnection(urlsplit(talk.emulator.url).netloc, timeout=60)
    connection.request(
        "GET", f"{talk.pods}/p/log?follow=true", headers={"Authorization": f"Bearer {talk.emulator.token}"}
    )
    answer = connection.getresponse()
    assert answer.readline().startswith(b"start p")

    talk.drop(f"{talk.pods}/p")

    assert answer.read() is not None
    connection.close()


def test_a_log_that_cannot_be_there_yet_is_400(talk: Talk) -> None:
    talk.make(talk.pods, pod("gated", schedulingGates=[{"name": "a"}]))
    talk.make(talk.pods, pod("stuck", gpus=0, wishes={"never-start": "ErrImagePull"}))
    until(lambda: talk.get(f"{talk.pods}/stuck")["status"].get("containerStatuses"))

    unbound, nothing = talk.ask("GET", f"{talk.pods}/gated/log")
    waiting, told = talk.ask("GET", f"{talk.pods}/stuck/log")

    assert (unbound, nothing, waiting) == (200, "", 400)
    assert told["message"] == 'container "main" in pod "stuck" is waiting to start: ErrImagePull'
    assert talk.ask("GET", f"{talk.pods}/absent/log")[0] == 404
    assert talk.ask("GET", f"{talk.pods}/stuck/log?container=other")[0] == 400
