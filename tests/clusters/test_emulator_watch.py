"""Watches: positions, selectors, bookmarks, 410."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from tests.clusters.emulator_kit import Talk


def _seen(talk: Talk, path: str, count: int) -> list[tuple[str, str]]:
    found = []
    for event in talk.watch(path):
        found.append((event["type"], event["object"]["metadata"].get("name", "")))
        if len(found) == count:
            break
    return found


def test_a_watch_goes_on_from_a_position(talk: Talk) -> None:
    talk.make(talk.maps, {"metadata": {"name": "before"}})
    position = talk.get(talk.maps)["metadata"]["resourceVersion"]
    talk.make(talk.maps, {"metadata": {"name": "map"}})
    talk.merge(f"{talk.maps}/map", {"data": {"a": "1"}})
    talk.drop(f"{talk.maps}/map")

    seen = _seen(talk, f"{talk.maps}?resourceVersion={position}", 3)

    assert seen == [("ADDED", "map"), ("MODIFIED", "map"), ("DELETED", "map")]


def test_a_watch_without_a_position_begins_with_what_is_there(talk: Talk) -> None:
    for name in "ab":
        talk.make(talk.maps, {"metadata": {"name": name}})

    assert _seen(talk, talk.maps, 2) == [("ADDED", "a"), ("ADDED", "b")]
    assert _seen(talk, f"{talk.maps}?resourceVersion=0", 2) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_hears_what_happens_while_it_is_open(talk: Talk) -> None:
    position = talk.get(talk.maps)["metadata"]["resourceVersion"]

    with ThreadPoolExecutor() as pool:
        watch = pool.submit(_seen, talk, f"{talk.maps}?resourceVersion={position}", 20)
        for number in range(20):
            talk.make(talk.maps, {"metadata": {"name": f"m{number:02}"}})
        seen = watch.result(60)

    assert seen == [("ADDED", f"m{number:02}") for number in range(20)]


def test_an_object_that_comes_to_match_a_selector_is_added_and_one_that_ceases_is_deleted(talk: Talk) -> None:
    talk.make(talk.maps, {"metadata": {"name": "map"}})
    position = talk.get(talk.maps)["metadata"]["resourceVersion"]
    for labels in ({"x": "1"}, {"x": "1", "y": "1"}, {"x": None}):
        talk.merge(f"{talk.maps}/map", {"metadata": {"labels": labels}})

    seen = _seen(talk, f"{talk.maps}?labelSelector=x&resourceVersion={position}", 3)

    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_position_that_is_too_old_is_410(talk: Talk) -> None:
    position = talk.get(talk.maps)["metadata"]["resourceVersion"]
    talk.make(talk.maps, {"metadata": {"name": "map"}})
    talk.emulator.compact()

    event = next(talk.watch(f"{talk.maps}?resourceVersion={position}"))

    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_history_is_forgotten_after_so_many_changes(talk: Talk) -> None:
    position = talk.make(talk.maps, {"metadata": {"name": "map"}})["metadata"]["resourceVersion"]
    talk.merge(f"{talk.maps}/map", {"data": {"n": "first"}})
    for number in range(501):
        talk.merge(f"{talk.maps}/map", {"data": {"n": str(number)}})

    event = next(talk.watch(f"{talk.maps}?resourceVersion={position}"))

    assert event["object"]["code"] == 410


def test_a_watch_ends_when_its_time_is_over_with_a_bookmark_for_those_who_asked(talk: Talk) -> None:
    events = list(talk.watch(f"{talk.maps}?allowWatchBookmarks=true", seconds=1))
    silent = list(talk.watch(talk.maps, seconds=1))

    assert [event["type"] for event in events] == ["BOOKMARK"]
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) > 0
    assert silent == []


def test_a_streaming_list_says_when_it_is_complete(talk: Talk) -> None:
    talk.make(talk.maps, {"metadata": {"name": "map"}})
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    events = list(islice(talk.watch(f"{talk.maps}?{query}"), 2))

    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_of_every_namespace_hears_this_one(talk: Talk) -> None:
    position = talk.get("/api/v1/configmaps")["metadata"]["resourceVersion"]
    talk.make(talk.maps, {"metadata": {"name": "map"}})

    event = next(talk.watch(f"/api/v1/configmaps?resourceVersion={position}"))

    assert event["object"]["metadata"]["namespace"] == talk.namespace


def test_a_list_from_the_future_is_refused(talk: Talk) -> None:
    status, body = talk.ask("GET", f"{talk.maps}?resourceVersion=999999999")

    assert (status, body["reason"]) == (504, "Timeout")
