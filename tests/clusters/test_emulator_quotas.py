"""ResourceQuota."""

import pytest

from clusters.emulator import quotas
from tests.clusters.emulator_kit import GPU, Object, Talk, pod, until

KEY = f"requests.{GPU}"


def _quota(**hard: str) -> Object:
    return {"metadata": {"name": "fence"}, "spec": {"hard": hard}}


def _used(talk: Talk) -> Object:
    used: Object = talk.get(f"{talk.quotas}/fence").get("status", {}).get("used", {})
    return used


def test_what_would_exceed_a_quota_is_403_with_the_numbers(talk: Talk) -> None:
    talk.make(talk.quotas, _quota(**{KEY: "4"}))
    talk.make(talk.pods, pod("first", gpus=3))

    status, body = talk.ask("POST", talk.pods, pod("second", gpus=2))

    assert (status, body["reason"]) == (403, "Forbidden")
    assert body["message"] == (
        f'pods "second" is forbidden: exceeded quota: fence, requested: {KEY}=2, used: {KEY}=3, limited: {KEY}=4'
    )


def test_used_amounts_follow_the_pods(talk: Talk) -> None:
    talk.make(talk.quotas, _quota(**{KEY: "8", "requests.memory": "64Gi", "pods": "5", "cpu": "4"}))
    talk.make(talk.pods, pod("a", gpus=2))
    talk.make(talk.pods, pod("b", gpus=1, cpu="1"))

    until(lambda: _used(talk) == {KEY: "3", "requests.memory": "2Gi", "pods": "2", "cpu": "1100m"})
    until(lambda: talk.get(f"{talk.pods}/a")["status"]["phase"] == "Running")
    talk.merge(f"{talk.pods}/a/status", {"status": {"phase": "Succeeded"}})
    until(lambda: _used(talk)[KEY] == "1")
    talk.drop(f"{talk.pods}/b?gracePeriodSeconds=0")
    until(lambda: _used(talk)[KEY] == "0")


def test_a_quota_on_cpu_wants_cpu_to_be_named(talk: Talk) -> None:
    talk.make(talk.quotas, _quota(**{"requests.cpu": "4"}))
    silent = pod("p")
    del silent["spec"]["containers"][0]["resources"]["requests"]

    status, body = talk.ask("POST", talk.pods, silent)

    assert status == 403
    assert "failed quota: fence: must specify requests.cpu" in body["message"]


def test_objects_are_counted(talk: Talk) -> None:
    talk.make(talk.quotas, _quota(**{"count/configmaps": "1"}))
    talk.make(talk.maps, {"metadata": {"name": "one"}})

    assert talk.ask("POST", talk.maps, {"metadata": {"name": "two"}})[0] == 403
    until(lambda: _used(talk) == {"count/configmaps": "1"})


def test_a_zero_quota_refuses_every_pod_that_asks(talk: Talk) -> None:
    talk.make(talk.quotas, _quota(**{KEY: "0"}))

    assert talk.ask("POST", talk.pods, pod("p", gpus=1))[0] == 403
    assert talk.ask("POST", talk.pods, pod("q", gpus=0))[0] == 201


def test_a_quota_with_a_bad_amount_is_refused(talk: Talk) -> None:
    assert talk.ask("POST", talk.quotas, _quota(**{KEY: "-1"}))[0] == 422
    assert talk.ask("POST", talk.quotas, _quota(**{KEY: "lots"}))[0] == 400


def test_a_pod_costs_the_same_however_many_are_there(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.make(talk.quotas, _quota(**{KEY: "1000"}))
    read = _counting(monkeypatch)
    for number in range(30):
        talk.make(talk.pods, pod(f"p{number}", gpus=0))
    until(lambda: all(body["status"]["phase"] == "Running" for body in talk.get(talk.pods)["items"]))
    read.clear()

    talk.make(talk.pods, pod("last", gpus=1))
    until(lambda: talk.get(f"{talk.pods}/last")["status"]["phase"] == "Running")

    until(lambda: _used(talk) == {KEY: "1"})
    assert set(read) == {"last"}


def _counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the name of each pod whose amounts are read for quotas."""
    names: list[str] = []
    asked = quotas.asked

    def note(body: Object) -> dict[str, int]:
        names.append(body["metadata"]["name"])
        return asked(body)

    monkeypatch.setattr(quotas, "asked", note)
    return names
