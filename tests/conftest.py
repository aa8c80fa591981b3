"""Fixtures that every test may use."""

from collections.abc import Iterator

import pytest

from tests.examples import use_profile

use_profile()

# What takes longest begins first, so that no worker has it left when the other has nothing more to do.
LONG = ("tests/test_newcomer_run.py", "tests/loop/test_killed.py", "tests/journeys/test_access.py")


# What stops everything that the tests of its module share comes last there.
STOPS = ("test_a_signal_ends_everything_a_new_start_goes_on_and_even_kill_9_leaves_nothing",)

# Whoever asks for one of these needs the real control plane, whatever the test says of itself.
REAL = {"cluster_under_test", "kubernetes", "kubernetes_site", "plane"}


@pytest.hookimpl(tryfirst=True, specname="pytest_collection_modifyitems")
def pytest_mark_what_needs_the_real_control_plane(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and REAL.intersection(item.fixturenames):
            item.add_marker(pytest.mark.kubernetes)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    # In its own place, so that what all tests of a module share is not stopped and started again for those behind it.
    for name in {item.path for item in items if item.name in STOPS}:
        places = [place for place, item in enumerate(items) if item.path == name]
        own = sorted((items[place] for place in places), key=lambda item: item.name in STOPS)
        for place, item in zip(places, own, strict=True):
            items[place] = item


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:  # noqa: ARG001  made by pytest-django
    """Let tests that commit empty the tables quickly."""
    from django.test import TransactionTestCase  # noqa: PLC0415  the rules' tests know no Django

    from tests import emptying  # noqa: PLC0415  as above

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: emptying.empty())
        yield
