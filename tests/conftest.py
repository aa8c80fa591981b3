"""Fixtures that every test may use."""

from collections.abc import Iterator

import pytest

from tests.examples import use_profile

use_profile()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:  # noqa: ARG001  made by pytest-django
    """Let tests that commit empty the tables quickly."""
    from django.test import TransactionTestCase  # noqa: PLC0415  the rules' tests know no Django

    from tests import emptying  # noqa: PLC0415  as above

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: emptying.empty())
        yield
