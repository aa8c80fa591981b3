import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from config import docs

CHECKED_IN = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
REFRESH = "TIDEGATE_DEBUG=1 .venv/bin/python manage.py spectacular --format openapi-json --file docs/openapi.json"


Schema = dict[str, Any]


@pytest.fixture(scope="module")
def schema() -> Schema:
    """Return the schema as it is served, with no warning on the way."""
    GENERATOR_STATS.reset()
    docs.made.cache_clear()
    made: Schema = Client().get("/api/v1/openapi.json").json()
    assert not GENERATOR_STATS
    return made


def test_the_schema_is_sound(schema: Schema) -> None:
    validate_schema(schema)  # type: ignore[no-untyped-call]

    assert schema["openapi"] == "3.1.0"


def test_the_schema_is_the_one_that_is_checked_in(schema: Schema) -> None:
    assert schema == json.loads(CHECKED_IN.read_text()), f"the API has changed; if that is wanted: {REFRESH}"


def test_the_schema_is_made_once_and_by_one_thread_at_a_time(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = []

    def get_schema(_: SchemaGenerator, **__: object) -> Schema:
        alone.append(docs.making.locked())
        return {}

    monkeypatch.setattr(SchemaGenerator, "get_schema", get_schema)
    docs.made.cache_clear()
    try:
        answers = [client.get("/api/v1/openapi.json").content for _ in range(2)]
    finally:
        docs.made.cache_clear()

    assert answers == [b"{}", b"{}"]
    assert alone == [True]


def test_every_operation_has_a_name_and_says_how_it_refuses(schema: Schema) -> None:
    operations = [
        operation for path in schema["paths"].values() for operation in path.values() if "operationId" in operation
    ]

    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+[A-Z][A-Za-z]*", name) for name in names), names
    assert all("default" in operation["responses"] and operation["description"] for operation in operations)


def test_a_problem_is_as_the_schema_says(schema: Schema, client: Client) -> None:
    problem = client.get("/api/nothing").json()

    described = schema["components"]["schemas"]["Problem"]
    assert set(problem) == set(described["required"]) == set(described["properties"])


def test_the_page_of_the_api_has_nothing_inline_and_nothing_from_elsewhere(client: Client) -> None:
    response = client.get("/api/docs")
    page = response.content.decode()

    assert "'unsafe-inline'" not in response["Content-Security-Policy"]
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    assert all(link.startswith("/") for link in re.findall(r'(?:src|href)="([^"]+)"', page))
