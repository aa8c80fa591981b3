"""What is read of the kinds that people write where the cluster forbids them, or has them only sometimes."""

import json
from typing import Any, cast

import pytest

from clusters.asking import Asker, Failure
from clusters.kinds import JOB_SET, RAY_JOB
from clusters.written import WrittenObjects

WANTED: Any = {kind.key: (kind.path, None) for kind in (JOB_SET, RAY_JOB)}
NO = json.dumps({"message": "forbidden: no right to list"}).encode()


class Server:
    """Serves these API versions, and lists each kind with nothing in it, but for the paths that it refuses."""

    def __init__(self, *served: str) -> None:
        self.served = served
        self.refused: dict[str, int] = {}

    def ask(self, _verb: str, path: str, **_: Any) -> Any:  # noqa: ANN401  a decoded answer
        if path in self.refused:
            raise Failure(self.refused[path], NO, {})
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": served}]} for served in self.served]}
        return {"items": [], "metadata": {"resourceVersion": "7"}}


def told(written: WrittenObjects) -> tuple[set[str], set[str]]:
    """Return the kinds that were listed, and those of which nothing is known."""
    found, unseen = written.listed(WANTED)
    return set(found), set(unseen)


@pytest.fixture
def server() -> Server:
    return Server(JOB_SET.api, RAY_JOB.api)


@pytest.fixture
def written(server: Server) -> WrittenObjects:
    return WrittenObjects(Asker(cast("Any", server)))


def test_a_kind_that_the_cluster_never_had_is_known_to_have_no_objects(server: Server, written: WrittenObjects) -> None:
    server.served = (JOB_SET.api,)

    assert told(written) == ({JOB_SET.key}, set())


def test_a_kind_that_comes_later_is_listed_with_the_next_list(server: Server, written: WrittenObjects) -> None:
    server.served = (JOB_SET.api,)
    told(written)
    server.served = (JOB_SET.api, RAY_JOB.api)

    assert told(written) == ({JOB_SET.key, RAY_JOB.key}, set())


@pytest.mark.parametrize("status", [403, 404])
def test_of_a_kind_whose_list_is_refused_nothing_is_known(server: Server, written: WrittenObjects, status: int) -> None:
    server.refused[RAY_JOB.path] = status

    assert told(written) == ({JOB_SET.key}, {RAY_JOB.key})


def test_where_the_kinds_are_not_told_nothing_is_known_of_any(server: Server, written: WrittenObjects) -> None:
    server.refused["/apis"] = 403

    assert told(written) == (set(), {JOB_SET.key, RAY_JOB.key})


def test_a_kind_that_is_missing_for_the_first_time_is_unknown_and_then_gone(
    server: Server, written: WrittenObjects
) -> None:
    told(written)
    server.served = (JOB_SET.api,)

    assert [told(written), told(written)] == [({JOB_SET.key}, {RAY_JOB.key}), ({JOB_SET.key}, set())]


def test_a_refusal_in_between_does_not_let_a_kind_count_as_gone(server: Server, written: WrittenObjects) -> None:
    told(written)
    server.refused["/apis"] = 403
    told(written)
    server.refused.clear()
    server.served = (JOB_SET.api,)

    assert told(written) == ({JOB_SET.key}, {RAY_JOB.key})
