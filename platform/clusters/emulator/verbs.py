"""The verbs on objects: list, get, create, replace, patch, delete."""

import base64
import binascii
import json
from http import HTTPStatus
from itertools import islice
from typing import Any

from clusters.emulator import applying, patches, tables
from clusters.emulator.calls import Call, Reply, Stream, Target, reply
from clusters.emulator.deletion import Options, delete
from clusters.emulator.errors import (
    ApiError,
    bad_request,
    expired,
    invalid,
    method_not_allowed,
    not_found,
    success,
    unsupported_media,
)
from clusters.emulator.kinds import PODS, Kind
from clusters.emulator.registry import Registry
from clusters.emulator.selectors import Test, everything, parse_fields, parse_labels
from clusters.emulator.shapes import check_parameters, without_nulls
from clusters.emulator.store import Object, Version
from clusters.emulator.watching import Watch, watch

_LONGEST_WATCH = 1800.0


class Verbs:
    """Carries out requests on objects."""

    def __init__(self, registry: Registry) -> None:
        """Work on the registry's store."""
        self._registry = registry
        self._core = registry.core

    def read(self, call: Call, target: Target) -> Reply | Stream:
        """Get, list or watch."""
        if target.name:
            found = self.find(target)
            shown = tables.table(target.kind, [found], {}, self._core.clock()) if tables.wanted(call) else found.raw
            return Reply(body=shown)
        if call.flag("watch"):
            return self._watch(call, target)
        return self._list(call, target)

    def find(self, target: Target) -> Version:
        """Return the object that a path names; raise 404."""
        found = self._core.store.find(target.kind, target.namespace or "", target.name)
        if found is None:
            raise not_found(target.kind, target.name)
        return found

    def create(self, call: Call, target: Target) -> Reply:
        """Create an object."""
        if target.namespace is None or target.name:
            raise method_not_allowed()
        created = self._registry.create(target.kind, target.namespace, call.object(), dry=_dry(call))
        return reply(created, HTTPStatus.CREATED)

    def replace(self, call: Call, target: Target) -> Reply:
        """Replace an object, or its status."""
        if not target.name:
            raise method_not_allowed()
        body = call.object()
        old = self.find(target).body
        if not (body.get("metadata") or {}).get("name"):
            raise bad_request("the name of the object is required")
        return reply(self._registry.replace(target.kind, old, body, part=target.part, dry=_dry(call)))

    def patch(self, call: Call, target: Target) -> Reply:
        """Change an object by a patch."""
        if not target.name:
            raise method_not_allowed()
        if call.content_type in {"application/apply-patch+yaml", "application/apply-patch+cbor"}:
            return self._apply(call, target)
        old = self.find(target).body
        body = self._patched(call, target, old)
        if not isinstance(body.get("metadata"), dict):
            raise invalid(target.kind, target.name, [("metadata", "Required value")])
        return reply(self._registry.replace(target.kind, old, body, part=target.part, dry=_dry(call)))

    def _patched(self, call: Call, target: Target, old: Object) -> Object:
        steps: Any = call.read()
        if call.content_type == "application/json-patch+json":
            stepped: Object = without_nulls(patches.json_patch(target.kind, target.name, old, steps))
            return stepped
        if not isinstance(steps, dict):
            raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
        if call.content_type == "application/merge-patch+json":
            patched: Object = patches.merge(old, steps)
        elif call.content_type == "application/strategic-merge-patch+json":
            patched = patches.strategic(old, steps)
        else:
            raise unsupported_media(call.content_type)
        cleaned: Object = without_nulls(patched)
        return cleaned

    def _apply(self, call: Call, target: Target) -> Reply:
        """Apply an object on the server's side, creating it where it is missing."""
        manager = call.query.get("fieldManager", "")
        if not manager:
            raise bad_request(
                "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
            )
        wanted = call.object()
        old = self._core.store.get(target.kind, target.namespace or "", target.name)
        if old is None and target.part:
            raise not_found(target.kind, target.name)
        if old is None:
            wanted = {**wanted, "metadata": {**(wanted.get("metadata") or {}), "name": target.name}}
            created = self._registry.create(target.kind, target.namespace or "", wanted, dry=_dry(call))
            created = applying.signed(created, wanted, manager, self._core.stamp())
            if not _dry(call):
                created = self._core.store.put(target.kind, created)
            return reply(created, HTTPStatus.CREATED)
        merged = applying.merged(target.kind, old, wanted, manager, force=call.flag("force"), now=self._core.stamp())
        return reply(self._registry.replace(target.kind, old, merged, part=target.part, dry=_dry(call)))

    def delete(self, call: Call, target: Target) -> Reply:
        """Delete an object, or all that a selector names."""
        options = read_options(call)
        if not target.name:
            return self._delete_all(call, target, options)
        body, gone = delete(self._core, target.kind, target.namespace or "", target.name, options)
        if gone and target.kind is not PODS:
            return reply(success(target.kind, target.name, body["metadata"]["uid"]))
        return reply(body)

    def _delete_all(self, call: Call, target: Target, options: Options) -> Reply:
        if target.namespace is None:
            raise method_not_allowed()
        test = _test(call, target.kind)
        chosen = [each for each in self._core.store.versions(target.kind, target.namespace) if test(each.body)]
        number = self._core.store.version
        for each in chosen:
            metadata = each.body["metadata"]
            if self._core.store.find(target.kind, metadata.get("namespace", ""), metadata["name"]):
                delete(self._core, target.kind, metadata.get("namespace", ""), metadata["name"], options)
        return Reply(body=_list_bytes(target.kind, chosen, {"resourceVersion": str(number)}))

    def _list(self, call: Call, target: Target) -> Reply:
        """List a page of objects."""
        store, test = self._core.store, _test(call, target.kind)
        limit = max(call.number("limit") or 0, 0)
        number, start = store.version, ("", "")
        if call.query.get("continue"):
            number, start = _read_position(call.query["continue"])
            if number < store.floor(target.kind):
                raise expired("The provided continue parameter is too old to display a consistent list result.")
        asked = call.number("resourceVersion") or 0
        if asked > store.version:
            message = f"Too large resource version: {asked}, current: {store.version}"
            raise ApiError(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", message)
        found = (
            each for each in store.versions(target.kind, target.namespace) if _key(each) > start and test(each.body)
        )
        page = list(islice(found, limit)) if limit else list(found)
        metadata: dict[str, object] = {"resourceVersion": str(number)}
        if limit and (left := sum(1 for _ in found)):
            metadata["continue"] = _write_position(number, _key(page[-1]))
            if test is everything:
                metadata["remainingItemCount"] = left
        if tables.wanted(call):
            return Reply(body=tables.table(target.kind, page, metadata, self._core.clock()))
        return Reply(body=_list_bytes(target.kind, page, metadata))

    def _watch(self, call: Call, target: Target) -> Stream:
        # Nothing and 0 both mean: begin with all that is there.
        since = call.number("resourceVersion") or None
        initial = call.flag("sendInitialEvents")
        if initial and call.query.get("resourceVersionMatch") != "NotOlderThan":
            raise bad_request("resourceVersionMatch: sendInitialEvents requires NotOlderThan")
        seconds = call.number("timeoutSeconds")
        wish = Watch(
            kind=target.kind,
            namespace=target.namespace if target.kind.namespaced else None,
            test=_test(call, target.kind),
            since=None if initial else since,
            seconds=float(seconds) if seconds else _LONGEST_WATCH,
            bookmarks=call.flag("allowWatchBookmarks"),
            mark_initial=initial,
        )
        return Stream(chunks=watch(self._core.store, wish, self._core.agenda.monotonic))


def read_options(call: Call) -> Options:
    """Read what a deletion asks from query and body; raise 400."""
    given = check_parameters("DeleteOptions", call.object()) if call.body.strip() else {}
    conditions = given.get("preconditions") or {}
    grace = call.number("gracePeriodSeconds")
    propagation = call.query.get("propagationPolicy") or given.get("propagationPolicy") or ""
    if given.get("orphanDependents") is True:
        propagation = "Orphan"
    return Options(
        grace=given.get("gracePeriodSeconds") if grace is None else grace,
        propagation=propagation,
        uid=conditions.get("uid") or "",
        resource_version=conditions.get("resourceVersion") or "",
        dry=_dry(call) or "All" in (given.get("dryRun") or []),
    )


def _dry(call: Call) -> bool:
    return call.query.get("dryRun") == "All"


def _test(call: Call, kind: Kind) -> Test:
    """Return the test that both selectors of a request make."""
    by_labels = parse_labels(call.query.get("labelSelector", ""))
    by_fields = parse_fields(kind, call.query.get("fieldSelector", ""))
    if by_fields is everything:
        return by_labels
    if by_labels is everything:
        return by_fields
    return lambda body: by_labels(body) and by_fields(body)


def _key(version: Version) -> tuple[str, str]:
    metadata = version.body["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _list_bytes(kind: Kind, versions: list[Version], metadata: dict[str, object]) -> bytes:
    head = json.dumps({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata})
    return head[:-1].encode() + b',"items":[' + b",".join(each.raw for each in versions) + b"]}"


def _write_position(number: int, key: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps([number, *key]).encode()).decode()


def _read_position(text: str) -> tuple[int, tuple[str, str]]:
    try:
        number, namespace, name = json.loads(base64.urlsafe_b64decode(text))
        return int(number), (str(namespace), str(name))
    except (binascii.Error, ValueError, TypeError) as error:
        raise bad_request("continue key is not valid") from error
