"""Objects as tables, the way kubectl asks for them: the columns and cells of the API server's own printer."""

from typing import Any

import pytest

from tests.clusters.emulator_kit import Talk, job, pod

KUBECTL = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
FOR_EVER = {"run-for": "1h"}


def shown(talk: Talk, path: str, *, wide: bool = False) -> list[dict[str, Any]]:
    """Return the rows as a mapping from column to cell."""
    status, body = talk.ask("GET", path, accept=KUBECTL)
    assert (status, body["kind"], body["apiVersion"]) == (200, "Table", "meta.k8s.io/v1")
    columns = body["columnDefinitions"]
    return [
        {
            column["name"]: cell
            for column, cell in zip(columns, row["cells"], strict=True)
            if wide or not column["priority"]
        }
        for row in body["rows"]
    ]


def test_a_failed_job_and_its_pod_say_so(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, wishes={"run-for": "1ms", "exit-code": "3"}, backoffLimit=0))
    talk.job_over("j", "Failed")

    [failed] = shown(talk, talk.jobs)
    [ended] = shown(talk, talk.pods)

    assert (failed["Name"], failed["Status"], failed["Completions"]) == ("j", "Failed", "0/1")
    assert (ended["Ready"], ended["Status"], ended["Restarts"]) == ("0/1", "Error", 0)


def test_a_running_job_counts_what_has_ended_and_its_pod_names_its_node(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, n=2, wishes=FOR_EVER))
    running = talk.running("j", 2)

    [line] = shown(talk, talk.jobs)
    pods = shown(talk, talk.pods, wide=True)

    assert (line["Status"], line["Completions"]) == ("Running", "0/2")
    assert {(each["Status"], each["Ready"]) for each in pods} == {("Running", "1/1")}
    assert {each["Name"]: each["Node"] for each in pods} == {
        each["metadata"]["name"]: each["spec"]["nodeName"] for each in running
    }


def test_one_object_is_a_table_of_one_row(talk: Talk) -> None:
    talk.make(talk.pods, pod("alone", gpus=0, wishes=FOR_EVER))

    [row] = shown(talk, f"{talk.pods}/alone")

    assert list(row) == ["Name", "Ready", "Status", "Restarts", "Age"]


@pytest.mark.parametrize(("cordoned", "status"), [(True, "Ready,SchedulingDisabled"), (False, "Ready")])
def test_a_cordoned_node_says_so(talk: Talk, cordoned: bool, status: str) -> None:  # noqa: FBT001  a case
    made = f"table-node-{cordoned}".lower()
    conditions = [{"type": "Ready", "status": "True"}]
    talk.make(
        "/api/v1/nodes",
        {"metadata": {"name": made}, "spec": {"unschedulable": cordoned}, "status": {"conditions": conditions}},
    )

    [row] = shown(talk, f"/api/v1/nodes?fieldSelector=metadata.name%3D{made}")

    assert row["Status"] == status
    talk.ask("DELETE", f"/api/v1/nodes/{made}")


def test_who_asks_for_plain_json_gets_no_table(talk: Talk) -> None:
    assert talk.get(talk.pods)["kind"] == "PodList"
