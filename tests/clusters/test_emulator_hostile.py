"""Whatever is sent, the answer is a Status with a code of its own and the emulator goes on."""

import copy
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.clusters.emulator_kit import MERGE, STEPS, STRATEGIC, Object, Talk, job, pod

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "1Gi", "-1", "NoExecute", "Exists", "Failed", "metadata.name", "\ud800", "é" * 70]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["key", "name", "effect", "operator", "values", "matchFields", "weight", "uid", "a/b"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
REFUSALS = {400, 403, 404, 409, 413, 415, 422}
HOSTILE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def _paths(body: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    return [here, *(path for key, value in inner for path in _paths(value, (*here, key)))]


def _replaced(body: Object, path: tuple[str | int, ...], value: object) -> object:
    if not path:
        return value
    changed: Any = copy.deepcopy(body)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


def _rich(body: Object) -> Object:
    """Return the pod or job with everything set that a rule looks at."""
    spec = body["spec"]["template"]["spec"] if "template" in body["spec"] else body["spec"]
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["big"]}]}
    spec["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        }
    }
    spec["tolerations"] = [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]
    spec["nodeSelector"] = {"pool": "big"}
    spec["terminationGracePeriodSeconds"] = 1
    spec["containers"][0]["env"] = [{"name": "A", "value": "b"}]
    body["metadata"]["labels"] = {"mark": "hostile"}
    body["metadata"]["ownerReferences"] = []
    return body


POD = _rich(pod("p", gpus=0, wishes={"run-for": "1ms", "start-after": "1ms", "exit-code": "0"}))
JOB = _rich(job("j", n=2, gpus=0, wishes={"run-for": "1ms"}, activeDeadlineSeconds=100, backoffLimitPerIndex=1))


@pytest.fixture(autouse=True)
def _nothing_breaks_inside(talk: Talk, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield
        talk.make(talk.jobs, job("sound", gpus=0))
        talk.job_over("sound")
    # What others' threads say, who were left by earlier tests, is not the emulator's.
    ours = [record for record in caplog.records if record.name.startswith(("uvicorn", "asyncio", "clusters.emulator"))]
    assert [record.getMessage() for record in ours if record.levelno >= logging.WARNING] == []


@HOSTILE
@given(st.data())
def test_a_hostile_pod_or_job_is_stored_or_refused(talk: Talk, data: st.DataObject) -> None:
    body, path = data.draw(st.sampled_from([(POD, talk.pods), (JOB, talk.jobs)]))
    place = data.draw(st.sampled_from(_paths(body)))

    status, answer = talk.ask("POST", path, _replaced(body, place, data.draw(JSON)))

    assert status in REFUSALS | {201}, answer
    assert status == 201 or answer["kind"] == "Status"
    talk.ask("DELETE", f"{path}?propagationPolicy=Background&gracePeriodSeconds=0")


@HOSTILE
@given(st.data())
def test_a_hostile_patch_applies_or_is_refused(talk: Talk, data: st.DataObject) -> None:
    talk.ask("POST", talk.pods, {**POD, "spec": {**POD["spec"], "schedulingGates": [{"name": "a"}]}})
    media = data.draw(st.sampled_from([MERGE, STRATEGIC, STEPS]))
    place = data.draw(st.sampled_from(_paths(POD)))
    value = data.draw(JSON)
    patch: Any = _replaced(POD, place, value)
    if media == STEPS:
        patch = [{"op": "add", "path": "/" + "/".join(map(str, place)), "value": value}]

    status, answer = talk.ask("PATCH", f"{talk.pods}/p", patch, media=media)

    assert status in REFUSALS | {200}, answer
    talk.ask("DELETE", f"{talk.pods}/p?gracePeriodSeconds=0")


@HOSTILE
@given(
    kind=st.sampled_from(["quotas", "maps", "pods"]),
    body=JSON,
    key=st.sampled_from(["spec", "metadata", "data", "status"]),
)
def test_hostile_small_objects_are_stored_or_refused(talk: Talk, kind: str, body: object, key: str) -> None:
    path: str = getattr(talk, kind)

    status, answer = talk.ask("POST", path, {"metadata": {"name": "x"}, key: body})

    assert status in REFUSALS | {201}, answer
    talk.ask("DELETE", f"{path}/x")


@HOSTILE
@given(body=JSON, key=st.sampled_from(["spec", "status", "metadata"]))
def test_a_hostile_node_is_stored_or_refused(talk: Talk, body: object, key: str) -> None:
    node: Object = {"metadata": {"name": "odd"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}

    status, answer = talk.ask("POST", "/api/v1/nodes", {**node, key: body})

    assert status in REFUSALS | {201}, answer
    talk.ask("DELETE", "/api/v1/nodes/odd")


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=x",
        "limit=99999999999999999999",
        "resourceVersion=-3",
        "resourceVersion=x",
        "watch=true&timeoutSeconds=-1",
        "watch=true&timeoutSeconds=1&resourceVersion=99999999",
        "labelSelector=((((",
        "labelSelector=%00",
        "labelSelector=a%20in%20(",
        "labelSelector=,,,",
        "fieldSelector==",
        "continue=%C3%A9",
        "continue=W10=",
        "watch=true&timeoutSeconds=1&sendInitialEvents=true",
    ],
)
def test_a_hostile_query_is_answered(talk: Talk, query: str) -> None:
    status, _ = talk.ask("GET", f"{talk.pods}?{query}")

    assert status in {200, 400, 504}


def test_deeply_nested_objects_are_answered(talk: Talk) -> None:
    for depth in (100, 450, 900, 3000):
        body = b'{"metadata":{"name":"deep"},"data":' + b'{"a":' * depth + b'"x"' + b"}" * depth + b"}"

        status, _ = talk.ask("POST", f"{talk.quotas}", body)

        assert status in {201, 400}
        talk.ask("DELETE", f"{talk.quotas}/deep")
