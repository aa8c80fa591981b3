"""Bodies say what they mean: a number is no text, a word is no truth value, text is no number."""

from collections.abc import Iterator

import pytest
from django.test import Client
from rest_framework import serializers

from config import urls  # noqa: F401  loads every shape
from tenants.models import Team
from tenants.rest.shapes import Shape
from tests.tenants.conftest import Site

JSON = "application/json"
# A value of another kind that Django REST framework would turn into the field's own.
OTHER_KIND = {
    serializers.CharField: 5,
    serializers.BooleanField: "yes",
    serializers.IntegerField: "5",
}


def bodies(base: type[Shape] = Shape) -> Iterator[type[Shape]]:
    for shape in base.__subclasses__():
        if shape.__name__.endswith(("In", "Patch")):
            yield shape
        yield from bodies(shape)


def fields_of_another_kind() -> Iterator[tuple[type[Shape], str, object]]:
    for shape in sorted(set(bodies()), key=lambda each: each.__name__):
        for name, field in shape().fields.items():
            for kind, value in OTHER_KIND.items():
                if isinstance(field, kind) and not field.read_only:
                    yield shape, name, value


@pytest.mark.parametrize(
    ("shape", "name", "value"),
    [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in fields_of_another_kind()],
)
def test_a_field_of_a_body_takes_no_value_of_another_kind(shape: type[Shape], name: str, value: object) -> None:
    said = shape(data={name: value})

    assert not said.is_valid()
    assert name in said.errors


@pytest.mark.django_db
def test_a_team_is_not_named_by_a_number(site: Site) -> None:
    browser = Client()
    browser.force_login(site.admin)

    response = browser.post("/api/v1/teams", {"name": 5}, content_type=JSON)

    problem = response.json()
    assert response.status_code == 422
    assert (problem["errors"][0]["pointer"], problem["errors"][0]["given"]) == ("/name", 5)
    assert not Team.objects.filter(name="5").exists()
