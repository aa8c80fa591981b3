"""A portal for the whole run, a browser for each test; without Chromium journeys skip, in CI they fail."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from clusters.emulator import Emulator
from stack.browser import chromium
from tenants.permissions import Actor
from tests.journeys.site import Site
from tests.loop.stage import machines
from tests.queues.lab import Lab

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PASSWORD = "a password for tests"  # noqa: S105  not a secret
# Milliseconds for whatever is waited for, on the slowest machine.
LIMIT = 60_000
expect.set_options(timeout=LIMIT)

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def engine() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        words = "no Chromium: apt-get install chromium, or name one in TIDEGATE_CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    # Playwright's own event loop lives in this thread, which Django takes for async code; so not for the whole run.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
        # While that loop runs, Django keeps connections of its own for it.
        connections.close_all()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def portal(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:  # noqa: ARG001  asks for the database
    folder = tmp_path_factory.mktemp("portal")
    with Emulator(nodes=machines()) as emulator:
        site = Site(folder, emulator.kubeconfig(folder / "kubeconfig"))
        try:
            yield site.start()
        finally:
            site.stop()


@pytest.fixture
def lab(transactional_db: None) -> Lab:  # noqa: ARG001  asks for a database that others see
    made = Lab()
    made.ann.user.password = password()
    made.ann.user.save()
    return made


@cache
def password() -> str:
    """Return the password as it is stored; to make that takes long, on purpose."""
    return make_password(PASSWORD)


def signed_in(who: Actor) -> str:
    """Return the key of a session of somebody's: signing in by form takes a password and a page more."""
    client = Client()
    client.force_login(who.user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def visit(engine: Browser, portal: Site, lab: Lab) -> Iterator[Visit]:  # noqa: ARG001  closed before the tables are emptied
    """Open a page as somebody who is signed in; every fault in the browser's console fails the test."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_page(who: Actor | None, path: str, *, expect: tuple[str, ...] = (), **options: Any) -> Page:  # noqa: ANN401  Playwright's own options
        context = engine.new_context(base_url=portal.url, **options)
        context.set_default_timeout(LIMIT)
        contexts.append(context)
        page = context.new_page()

        def note(text: str) -> None:
            if not any(words in text for words in expect):
                faults.append(text)

        page.on(
            "console",
            lambda message: (
                note(f"{message.text} {message.location.get('url', '')}")
                if message.type in {"error", "warning"}
                else None
            ),
        )
        page.on("pageerror", lambda error: note(str(error)))
        if who:
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": signed_in(who), "url": portal.url}])
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults
