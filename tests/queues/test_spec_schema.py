"""The JSON Schema says what the reader reads."""

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes without types
import pytest
from hypothesis import given

from queues import spec
from queues.spec.schema import SCHEMA
from tests.queues.lab import compact
from tests.queues.test_spec import SMALL, UNHURRIED, catalog, errors, read

ODD: Any = "xyzzy"


def known(found: dict[str, Any], *pointer: str) -> set[str]:
    place = found
    for step in pointer:
        place = place[step] if step in place else place["properties"][step]
    return set(place["properties"])


@pytest.mark.parametrize(
    ("data", "pointer", "path"),
    [
        ({**compact(), ODD: 1}, f"/{ODD}", ()),
        (compact(metadata={ODD: 1}), f"/metadata/{ODD}", ("metadata",)),
        (compact(xyzzy=1), f"/spec/{ODD}", ("spec",)),
        (compact(run={"image": "a", ODD: 1}), f"/spec/run/{ODD}", ("spec", "run")),
        (compact(resources={ODD: 1}), f"/spec/resources/{ODD}", ("spec", "resources")),
        (
            compact(shape="gang", groups=[{"name": "a", ODD: 1}]),
            f"/spec/groups/0/{ODD}",
            ("spec", "groups", "items"),
        ),
    ],
)
def test_schema_and_reader_know_the_same_fields(data: object, pointer: str, path: tuple[str, ...]) -> None:
    assert set(errors(data)[pointer].allowed) == known(SCHEMA, *path)


def test_schema_and_reader_know_the_same_bounds_of_elastic_tasks() -> None:
    found = errors(compact(shape="elastic", tasks={"max": 2, ODD: 1}))[f"/spec/tasks/{ODD}"]

    _, bounds = SCHEMA["properties"]["spec"]["properties"]["tasks"]["anyOf"]
    assert set(found.allowed) == set(bounds["properties"]) == {"min", "max"}


@UNHURRIED
@given(SMALL)
def test_what_the_reader_takes_and_gives_fits_the_schema(body: dict[str, Any]) -> None:
    data = compact(**body)

    jsonschema.validate(data, SCHEMA)
    jsonschema.validate(spec.to_json(read(data, catalog(annotations=True))), SCHEMA)


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": 0},
        {"gpus": "h100"},
        {"shape": "flexible"},
        {"shape": "elastic", "tasks": {"min": 2}},
        {"shape": "elastic", "tasks": {"max": 8, "desired": 6}},
        {"retries": 11},
        {"x": 1},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(changes: dict[str, Any]) -> None:
    data = compact(**changes)

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)
    assert errors(data)
