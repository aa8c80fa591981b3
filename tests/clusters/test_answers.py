import json

import pytest

from clusters import answers
from clusters.port import ClusterError, Gone, NameTaken, NotThere, QuotaRefused, Refused, Unreachable


def status(message: str, **more: object) -> bytes:
    return json.dumps({"kind": "Status", "status": "Failure", "message": message, **more}).encode()


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (400, status("bad"), Refused),
        (401, status("Unauthorized"), Unreachable),
        (403, status('pods "a" is forbidden: exceeded quota: fence'), QuotaRefused),
        (403, status('pods "a" is forbidden: status unknown for quota: fence'), QuotaRefused),
        (403, status('pods is forbidden: User "x" cannot create resource "pods" in API group ""'), Unreachable),
        (403, status('nodes is forbidden: User "x" cannot get path "/version"'), Unreachable),
        (403, status('pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged'), Refused),
        (403, status('admission webhook "x" denied the request: no'), Refused),
        (403, status("failed quota: fence: must specify requests.cpu"), Refused),
        (403, status('jobs.batch "a" is forbidden: not yet ready to handle request'), Unreachable),
        (404, status("the server could not find the requested resource"), NotThere),
        (405, b"", Refused),
        (408, b"", Unreachable),
        (409, status("Operation cannot be fulfilled"), Unreachable),
        (410, status("too old resource version"), Gone),
        (413, b"", Refused),
        (422, status("Job is invalid"), Refused),
        (429, status("slow down"), Unreachable),
        (500, status("failed calling webhook"), Unreachable),
        (503, b"<html>gateway</html>", Unreachable),
        (302, b"", Unreachable),
    ],
)
def test_a_status_means_one_error(code: int, body: bytes, kind: type[ClusterError]) -> None:
    assert type(answers.error(code, body, {})) is kind


def test_a_namespace_that_is_being_deleted_is_a_name_on_its_way_out() -> None:
    details = {"causes": [{"reason": "NamespaceTerminating", "message": "being terminated"}]}

    error = answers.error(403, status("jobs.batch is forbidden", details=details), {})

    assert isinstance(error, NameTaken)
    assert error.leaving


@pytest.mark.parametrize(
    ("header", "seconds"),
    [({"Retry-After": "7"}, 7.0), ({}, None), ({"Retry-After": "soon"}, None), ({"Retry-After": "-1"}, 0.0)],
)
def test_the_servers_wish_for_a_pause_is_kept(header: dict[str, str], seconds: float | None) -> None:
    error = answers.error(429, b"", header)

    assert isinstance(error, Unreachable)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (status("spec.image: Required value"), "spec.image: Required value"),
        (b"upstream is away\n", "upstream is away"),
        (b"[1]", "[1]"),
        (b'{"message": 3}', '{"message": 3}'),
        (b"", "HTTP 500 without a text"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 5000, "x" * 1000),
    ],
)
def test_the_servers_words_are_kept(body: bytes, text: str) -> None:
    assert str(answers.error(500, body, {})) == text


def test_a_missing_namespace_is_told_from_a_missing_object() -> None:
    assert answers.is_missing_namespace(status("not found", details={"kind": "namespaces", "name": "a"}))
    assert not answers.is_missing_namespace(status("not found", details={"kind": "jobs", "name": "a"}))
    assert not answers.is_missing_namespace(b"nothing")
