"""Junk in every field of every write of the API, sent by an admin: refused in words, never a crash."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from queues.models import Decision, Job
from tenants.models import ApiToken
from tenants.services.tokens import digest
from tests.queues.lab import NOW, Lab

SCHEMA = json.loads((Path(__file__).resolve().parents[1] / "docs" / "openapi.json").read_text())
BODIES: tuple[Any, ...] = (None, "x", 1, True, [], [None], {}, {"": ""}, {"a": {"b": 1}})
VALUES: tuple[Any, ...] = (None, "", "x" * 3000, "\u00e4/\ud83d\ude00", -1, 10**17, 1.5, [None], {"a": {"b": 1}})
HEADERS = {"If-Match": "*"}


def properties(operation: dict[str, Any]) -> list[str]:
    """Return the names of the fields that a body may have."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = content.get("schema", {}).get("$ref", "")
    shape = SCHEMA["components"]["schemas"].get(reference.rpartition("/")[2], {})
    return list(shape.get("properties", {}))


def writes() -> Iterator[tuple[str, str, list[str]]]:
    """Yield method, address and fields of every write."""
    for path, operations in SCHEMA["paths"].items():
        for method, operation in operations.items():
            if method in {"post", "put", "patch", "delete"}:
                yield method, path, properties(operation)


@pytest.fixture
def admin(lab: Lab) -> Client:
    ApiToken.objects.create(
        user=lab.root.user, name="all", prefix="tg_root", digest=digest("tg_root"), scopes=["admin"], created_at=NOW
    )
    return Client(headers={"Authorization": "Bearer tg_root"}, raise_request_exception=False)


@pytest.fixture
def lab(db: None) -> Lab:  # noqa: ARG001  asks for the database
    made = Lab()
    made.submit(name="junk")
    Decision.objects.create(at=NOW, digest="d", classes=0, admissions=0, tasks=0, units=0)
    return made


def fill(path: str) -> str:
    """Return an address with things that are there."""
    job = Job.objects.filter(name="junk").get()
    known = {
        "uid": job.uid,
        "team": "nlp",
        "user": "ann",
        "flavor": "h100",
        "token_id": 1,
        "cycle": 1,
        "name": "default",
    }
    return path.format(**known)


@pytest.mark.timeout(600)
def test_junk_in_any_field_is_refused_in_words(admin: Client) -> None:
    faults = []
    for method, path, fields in writes():
        bodies = [*BODIES, *({field: junk} for field in fields for junk in VALUES)]
        for body in bodies:
            with transaction.atomic():
                response = admin.generic(
                    method.upper(), fill(path), json.dumps(body), content_type="application/json", headers=HEADERS
                )
                transaction.set_rollback(True)
            if response.status_code >= 500:
                faults.append(f"{method} {path} {json.dumps(body)[:80]}: {response.status_code}")

    assert faults == []


@pytest.mark.parametrize("query", ["limit=-1", "cursor=%F0%9F%98%80", "count=%00", "x=1", "limit=1&limit=2", "%ff=%ff"])
def test_junk_in_the_query_of_any_list_is_refused_or_ignored(admin: Client, query: str) -> None:
    paths = [path for path, operations in SCHEMA["paths"].items() if "get" in operations and "{" not in path]

    answers = {path: admin.get(f"{path}?{query}").status_code for path in paths}

    assert {path: status for path, status in answers.items() if status >= 500} == {}


@pytest.mark.parametrize("junk", ["%F0%9F%98%80", "x" * 1000, "9" * 40, "-1", ".", "a%20b", "%C3%A4"])
def test_junk_in_the_address_is_not_found(admin: Client, junk: str) -> None:
    names = ("uid", "team", "user", "flavor", "token_id", "cycle", "name")
    answers = {}
    for path, operations in SCHEMA["paths"].items():
        if "get" in operations and "{" in path:
            answers[path] = admin.get(path.format(**dict.fromkeys(names, junk))).status_code

    assert set(answers.values()) <= {400, 404}
