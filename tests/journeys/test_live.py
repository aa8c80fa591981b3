"""Live pages when all is well, when the broker is gone, and what open streams cost."""

import http.client
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from django.db import connection
from django.test import Client
from playwright.sync_api import Route, expect

from queues import live
from tests.journeys.conftest import Visit
from tests.journeys.site import APPLICATION, POOL, Site
from tests.queues.lab import Lab

pytestmark = pytest.mark.journey


def session(lab: Lab) -> str:
    client = Client()
    client.force_login(lab.ann.user)
    return client.cookies["sessionid"].value


@contextmanager
def stream(portal: Site, cookie: str, topics: str = "jobs") -> Iterator[http.client.HTTPResponse]:
    wire = http.client.HTTPConnection("localhost", portal.port, timeout=60)
    wire.request("GET", f"/live?since={time.time()}&topics={topics}", headers={"Cookie": f"sessionid={cookie}"})
    with closing(wire), wire.getresponse() as answer:
        yield answer


def until(answer: http.client.HTTPResponse, words: bytes) -> None:
    while words not in (line := answer.readline()):
        assert line, "the stream has ended"


def test_a_page_says_when_it_polls_and_takes_it_back_when_the_stream_is_there_again(
    lab: Lab, portal: Site, visit: Visit
) -> None:
    page = visit(lab.ann, "/jobs?view=all", expect=("503", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION"))
    offline = page.get_by_text("Reconnecting.")
    expect(page.locator("body[data-stream=open]")).to_be_attached()
    expect(offline).not_to_be_visible()

    with portal.without_broker():
        expect(offline).to_be_visible()

    expect(offline).not_to_be_visible()
    lab.submit(name="afterwards")
    portal.tell("jobs")
    expect(page.get_by_role("link", name="afterwards")).to_be_visible()


def test_a_hint_reaches_an_open_stream(lab: Lab, portal: Site) -> None:
    with stream(portal, session(lab), "jobs+team:nlp+team:cv") as answer:
        until(answer, b"hello")

        portal.tell("team:cv", "team:nlp")

        until(answer, b"data: team:nlp")


def test_what_moved_between_the_page_and_its_stream_is_not_lost(lab: Lab, portal: Site, visit: Visit) -> None:
    page = visit(lab.ann, "/jobs?view=all")
    streams: list[Route] = []

    def wait(route: Route) -> None:
        streams.append(route)

    page.route("**/live?*", wait)

    page.reload()
    page.wait_for_function("document.readyState === 'complete'")
    lab.submit(name="between")
    portal.tell("jobs")
    streams[0].continue_()

    expect(page.get_by_role("link", name="between")).to_be_visible()


@pytest.mark.usefixtures("lab")
def test_a_stranger_gets_no_stream(portal: Site) -> None:
    with stream(portal, "nobody") as answer:
        assert answer.status == 401


def test_open_streams_hold_no_database_connection_and_are_limited(lab: Lab, portal: Site) -> None:
    cookie = session(lab)

    with ExitStack() as opened:
        for _ in range(live.STREAMS_PER_USER):
            until(opened.enter_context(stream(portal, cookie)), b"hello")
        refused = opened.enter_context(stream(portal, cookie))

        assert (refused.status, refused.headers["Retry-After"]) == (429, "30")
        assert 0 < connections_of_the_portal() <= POOL < live.STREAMS_PER_USER


def connections_of_the_portal() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND application_name = %s",
            [APPLICATION],
        )
        return int(cursor.fetchone()[0])
