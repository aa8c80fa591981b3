"""Requests to one API server, and what their answers mean where a verb has no opinion of its own."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from clusters import answers, names, watching
from clusters.port import ClusterError, Gone, NameTaken

PAGE = 500
JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

Json: TypeAlias = dict[str, Any]
Query: TypeAlias = Mapping[str, str]


class Failure(Exception):
    """An answer that is not a success, before a verb has judged it."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Keep the answer as it came."""
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers

    def judged(self) -> ClusterError:
        """Return what the answer means where a verb has no opinion of its own."""
        return answers.error(self.status, self.body, self.headers)


class Stream(watching.Stream, Protocol):
    """An answer that is still arriving."""

    def chunks(self) -> Iterator[bytes]:
        """Yield bytes as they come; raise Unreachable where they break off."""
        ...


class Api(Protocol):
    """HTTP to one API server; both calls raise Failure for an answer that is no success, Unreachable for none."""

    requests: Counter[str]

    def ask(
        self, verb: str, path: str, *, query: Query | None = None, body: Json | None = None, media: str = JSON
    ) -> Json:
        """Make one request and return the decoded answer."""
        ...

    def open(self, verb: str, path: str, *, query: Query, first: float, between: float) -> Stream:
        """Make one request whose answer is read while it arrives.

        Until it begins ``first`` seconds may pass, and ``between`` from one piece to the next.
        """
        ...

    def close(self) -> None:
        """Close connections that are kept open."""
        ...


class Asker:
    """Makes requests and turns failures into what they mean."""

    def __init__(self, api: Api) -> None:
        """Ask this server."""
        self.api = api

    def ask(self, verb: str, path: str, *, query: Query | None = None) -> Json:
        """Make one request."""
        try:
            return self.api.ask(verb, path, query=query)
        except Failure as failure:
            raise failure.judged() from failure

    def unless_missing(
        self, verb: str, path: str, *, query: Query | None = None, body: Json | None = None, media: str = JSON
    ) -> Json | None:
        """Make one request; None where there is no such object."""
        try:
            return self.api.ask(verb, path, query=query, body=body, media=media)
        except Failure as failure:
            if failure.status == answers.NOT_FOUND:
                return None
            raise failure.judged() from failure

    def delete_this(self, path: str, uid: str, *, options: Json) -> None:
        """Delete the object of this UID; one that is gone, or has been made anew under the name, is passed over."""
        try:
            self.api.ask("delete", path, body={**options, "preconditions": {"uid": uid}})
        except Failure as failure:
            if failure.status not in {answers.NOT_FOUND, answers.CONFLICT}:
                raise failure.judged() from failure

    def create(self, collection: str, wanted: Json) -> None:
        """Create an object; one of that name is as good."""
        try:
            self.api.ask("create", collection, body=wanted)
        except Failure as failure:
            if failure.status != answers.CONFLICT:
                raise failure.judged() from failure

    def create_owned(self, collection: str, wanted: Json) -> Json:
        """Create an object, or return the one that is there if it is of the same wave and stays; raise NameTaken."""
        name = wanted["metadata"]["name"]
        try:
            return self.api.ask("create", collection, body=wanted)
        except Failure as failure:
            if failure.status != answers.CONFLICT:
                raise
        found = self.unless_missing("get", f"{collection}/{name}")
        if found is None:
            raise NameTaken(f"{name} was there and has just gone", leaving=True)
        meta = found["metadata"]
        if "deletionTimestamp" in meta:
            raise NameTaken(f"{name} is being deleted", leaving=True)
        theirs, ours = meta.get("labels") or {}, wanted["metadata"]["labels"]
        if theirs.get(names.LABEL_WAVE) != ours[names.LABEL_WAVE]:
            # An object of this job of which the database has lost the wave goes as soon as the watcher has seen it.
            stray = names.LABEL_WAVE in theirs and theirs.get(names.LABEL_JOB) == ours[names.LABEL_JOB]
            raise NameTaken(f"{name} exists and is not of this wave", leaving=stray)
        return found

    def listed(self, path: str, query: Query) -> tuple[list[Json], str]:
        """Return all items, page by page, and the position that they show; where a page expires, all at once."""
        try:
            return self._list_pages(path, query)
        except Gone:
            answer = self.ask("list", path, query=query)
            return answer.get("items") or [], answer["metadata"]["resourceVersion"]

    def _list_pages(self, path: str, query: Query) -> tuple[list[Json], str]:
        items: list[Json] = []
        token = ""
        while True:
            page = self.ask("list", path, query={**query, "limit": str(PAGE), **({"continue": token} if token else {})})
            items += page.get("items") or []
            token = page["metadata"].get("continue") or ""
            if not token:
                return items, page["metadata"]["resourceVersion"]


def path_of(root: str, namespace: str, *parts: str) -> str:
    """Return the path of a collection in a namespace, or of one object in it."""
    return "/".join((root, "namespaces", *(quote(part, safe="") for part in (namespace, *parts))))
