"""The Job controller."""

from tests.clusters.emulator_kit import GPU, MERGE, Talk, condition, job, until

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
FOREVER = {"forever": "1"}


def test_an_indexed_job_runs_every_index_and_completes(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", n=3, gpus=0))

    over = talk.job_over("j")

    status = over["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (3, "0-2")
    assert "active" not in status
    assert [row["type"] for row in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert status["completionTime"] >= status["startTime"]
    pods = talk.pods_of("j")
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in pods) == ["0", "1", "2"]
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}


def test_pods_carry_labels_owner_hostname_and_index(talk: Talk) -> None:
    made = talk.make(talk.jobs, job("j", n=2, gpus=0, wishes=FOREVER))

    pod = talk.running("j", 2)[1]

    metadata, uid = pod["metadata"], made["metadata"]["uid"]
    assert metadata["labels"] == {
        "job-name": "j",
        "controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "batch.kubernetes.io/controller-uid": uid,
        INDEX: "1",
    }
    assert metadata["ownerReferences"][0]["uid"] == uid
    assert metadata["name"].startswith("j-1-")
    assert pod["spec"]["hostname"] == "j-1"
    assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def test_no_more_pods_run_at_once_than_parallelism_says(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", n=5, gpus=0, parallelism=2, wishes=FOREVER))

    pods = talk.running("j", 2)

    assert len(talk.pods_of("j")) == 2
    assert [pod["metadata"]["annotations"][INDEX] for pod in pods] == ["0", "1"]
    status = until(lambda: found if (found := talk.get(f"{talk.jobs}/j")["status"]).get("ready") == 2 else None)
    assert status["active"] == 2


def test_the_first_failure_ends_a_job_without_backoff(talk: Talk) -> None:
    body = job("j", n=2, gpus=0, wishes={"exit-code": "137"})
    talk.make(talk.jobs, body)

    over = talk.job_over("j", "Failed")

    assert condition(over, "Failed", "reason") == "BackoffLimitExceeded"
    assert [row["type"] for row in over["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert over["status"]["failed"] >= 1
    failed = [pod for pod in talk.pods_of("j") if pod["status"]["phase"] == "Failed"]
    end = failed[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "Error")
    assert "BackoffLimitExceeded" in talk.reasons("j")


def test_failure_stops_the_other_pods_before_the_job_is_called_failed(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", n=2, gpus=0, wishes=FOREVER))
    first, second = talk.running("j", 2)
    path = f"{talk.pods}/{first['metadata']['name']}"

    talk.drop(path)
    over = talk.job_over("j", "Failed")

    assert talk.gone(path)
    assert talk.gone(f"{talk.pods}/{second['metadata']['name']}")
    assert over["status"]["failed"] == 2


def test_a_failure_within_backoff_is_run_again(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, backoffLimit=3, wishes=FOREVER))
    first = talk.running("j", 1)[0]

    talk.drop(f"{talk.pods}/{first['metadata']['name']}")
    again = until(lambda: [pod for pod in talk.pods_of("j") if pod["metadata"]["uid"] != first["metadata"]["uid"]])

    assert again[0]["metadata"]["annotations"][INDEX] == "0"
    until(lambda: talk.get(f"{talk.jobs}/j")["status"].get("failed") == 1)


def test_a_patient_job_replaces_a_pod_only_once_it_has_ended(talk: Talk) -> None:
    wishes = {**FOREVER, "ignore-term": "1"}
    talk.make(talk.jobs, job("j", gpus=0, backoffLimit=3, wishes=wishes, inner={"terminationGracePeriodSeconds": 600}))
    first = talk.running("j", 1)[0]["metadata"]

    talk.drop(f"{talk.pods}/{first['name']}")
    status = until(lambda: found if (found := talk.get(f"{talk.jobs}/j")["status"]).get("terminating") else None)

    assert "active" not in status
    assert len(talk.pods_of("j")) == 1
    talk.drop(f"{talk.pods}/{first['name']}?gracePeriodSeconds=0")
    until(lambda: talk.gone(f"{talk.pods}/{first['name']}"))
    until(lambda: talk.pods_of("j"))


def test_a_suspended_job_has_no_pods_until_it_is_resumed(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, suspend=True, wishes=FOREVER))
    until(lambda: condition(talk.get(f"{talk.jobs}/j"), "Suspended") == "True")
    assert talk.pods_of("j") == []

    talk.merge(f"{talk.jobs}/j", {"spec": {"suspend": False}})
    talk.running("j", 1)
    until(lambda: condition(talk.get(f"{talk.jobs}/j"), "Suspended") == "False")

    talk.merge(f"{talk.jobs}/j", {"spec": {"suspend": True}})
    until(lambda: not talk.pods_of("j"))
    until(lambda: "startTime" not in talk.get(f"{talk.jobs}/j")["status"])


def test_a_suspended_job_may_be_sent_elsewhere(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, suspend=True, wishes=FOREVER))
    until(lambda: condition(talk.get(f"{talk.jobs}/j"), "Suspended"))
    patch = {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"pool": "small"}}}}}

    talk.merge(f"{talk.jobs}/j", patch)

    assert talk.running("j", 1)[0]["spec"]["nodeName"].startswith("small-")


def test_a_job_that_runs_past_its_deadline_fails(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, activeDeadlineSeconds=1, wishes=FOREVER))

    over = talk.job_over("j", "Failed")

    assert condition(over, "Failed", "reason") == "DeadlineExceeded"
    assert talk.pods_of("j") == [] or all(pod["status"]["phase"] == "Failed" for pod in talk.pods_of("j"))


def test_a_quota_stops_pods_and_is_told_until_there_is_room(talk: Talk) -> None:
    talk.make(talk.quotas, {"metadata": {"name": "gpus"}, "spec": {"hard": {f"requests.{GPU}": "1"}}})
    talk.make(talk.jobs, job("j", n=2, gpus=1, wishes=FOREVER))

    until(lambda: "FailedCreate" in talk.reasons("j"))
    assert len(talk.pods_of("j")) == 1

    talk.merge(f"{talk.quotas}/gpus", {"spec": {"hard": {f"requests.{GPU}": "2"}}})
    talk.running("j", 2)


def test_lower_parallelism_stops_the_highest_indexes(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", n=3, gpus=0, backoffLimit=5, wishes=FOREVER))
    talk.running("j", 3)

    talk.merge(f"{talk.jobs}/j", {"spec": {"parallelism": 1}})

    left = until(lambda: pods if len(pods := talk.pods_of("j")) == 1 else None)
    assert left[0]["metadata"]["annotations"][INDEX] == "0"


def test_a_job_without_indexes_runs_as_many_as_it_needs(talk: Talk) -> None:
    body = job("j", n=3, gpus=0, completionMode="NonIndexed", parallelism=2)
    talk.make(talk.jobs, body)

    over = talk.job_over("j")

    assert over["status"]["succeeded"] == 3
    assert "completedIndexes" not in over["status"]
    assert len(talk.pods_of("j")) == 3


def test_pods_that_never_started_do_not_keep_a_failing_job_alive(talk: Talk) -> None:
    body = job("j", n=2, gpus=8, activeDeadlineSeconds=1, inner={"nodeSelector": {"pool": "nowhere"}})
    talk.make(talk.jobs, body)

    talk.job_over("j", "Failed")

    until(lambda: not talk.pods_of("j"))


def test_pods_keep_their_finalizer_until_their_end_is_counted(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0))

    talk.job_over("j")

    assert "finalizers" not in talk.pods_of("j")[0]["metadata"]


def test_with_a_limit_for_each_index_the_others_go_on(talk: Talk) -> None:
    body = job("j", n=2, gpus=0, backoffLimitPerIndex=0, wishes=FOREVER)
    del body["spec"]["backoffLimit"]
    talk.make(talk.jobs, body)
    first, second = talk.running("j", 2)

    talk.drop(f"{talk.pods}/{first['metadata']['name']}")
    status = until(lambda: found if (found := talk.get(f"{talk.jobs}/j")["status"]).get("failedIndexes") else None)

    assert (status["failedIndexes"], status["failed"], status["active"]) == ("0", 1, 1)
    assert [pod["metadata"]["name"] for pod in talk.pods_of("j")] == [second["metadata"]["name"]]
    talk.drop(f"{talk.pods}/{second['metadata']['name']}")
    over = talk.job_over("j", "Failed")
    assert condition(over, "Failed", "reason") == "FailedIndexes"
    assert over["status"]["failedIndexes"] == "0,1"


def test_an_index_is_tried_again_within_its_limit(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0, backoffLimit=9, backoffLimitPerIndex=1, wishes={"exit-code": "1"}))

    over = talk.job_over("j", "Failed")

    counts = sorted(pod["metadata"]["annotations"][f"{FAILURES}"] for pod in talk.pods_of("j"))
    assert counts == ["0", "1"]
    assert (over["status"]["failed"], over["status"]["failedIndexes"]) == (2, "0")


def test_more_lost_indexes_than_allowed_end_the_job(talk: Talk) -> None:
    body = job("j", n=3, gpus=0, backoffLimit=9, backoffLimitPerIndex=0, maxFailedIndexes=0, wishes=FOREVER)
    talk.make(talk.jobs, body)
    first = talk.running("j", 3)[0]

    talk.drop(f"{talk.pods}/{first['metadata']['name']}")

    assert condition(talk.job_over("j", "Failed"), "Failed", "reason") == "MaxFailedIndexesExceeded"


def test_limits_by_index_need_indexes(talk: Talk) -> None:
    assert talk.ask("POST", talk.jobs, job("a", backoffLimitPerIndex=0, completionMode="NonIndexed"))[0] == 422
    assert talk.ask("POST", talk.jobs, job("b", maxFailedIndexes=1))[0] == 422
    assert talk.ask("POST", talk.jobs, job("c", backoffLimitPerIndex=-1))[0] == 422


def test_a_job_whose_spec_is_finished_stays_finished(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", gpus=0))
    before = talk.job_over("j")

    talk.ask("PATCH", f"{talk.jobs}/j", {"spec": {"parallelism": 5}}, media=MERGE)
    for pod in talk.pods_of("j"):
        talk.drop(f"{talk.pods}/{pod['metadata']['name']}")

    assert talk.pods_of("j") == []
    assert talk.get(f"{talk.jobs}/j")["status"] == before["status"]


def test_pods_that_a_suspension_deletes_are_no_failures(talk: Talk) -> None:
    talk.make(talk.jobs, job("j", n=2, gpus=0, wishes=FOREVER))
    talk.running("j", 2)

    talk.merge(f"{talk.jobs}/j", {"spec": {"suspend": True}})
    until(lambda: not talk.pods_of("j"))
    talk.merge(f"{talk.jobs}/j", {"spec": {"suspend": False}})
    talk.running("j", 2)

    live = talk.get(f"{talk.jobs}/j")
    assert "failed" not in live["status"]
    assert condition(live, "Failed") is None
