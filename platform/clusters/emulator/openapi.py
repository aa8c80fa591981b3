"""The little of OpenAPI v3 that kubectl asks for before it sends an object: does the server check fields itself?"""

from typing import Any

from clusters.emulator.kinds import Kind, Served, groups


def index(served: Served) -> dict[str, Any]:
    """Return what /openapi/v3 says."""
    paths = ["api/v1", *(f"apis/{group}/{version}" for group, version in groups(served))]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def document(group: str, version: str, served: Served) -> dict[str, Any]:
    """Return the document of one group and version."""
    paths = {_path(kind): _operations(kind) for kind in served if (kind.group, kind.version) == (group, version)}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": version}, "paths": paths, "components": {}}


def _path(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    space = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}{space}/{kind.plural}/{{name}}"


def _operations(kind: Kind) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    marks = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    operation = {"parameters": parameters, "responses": {}, "x-kubernetes-group-version-kind": marks}
    return {"put": operation, "patch": operation}
