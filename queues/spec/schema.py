"""The compact spec as JSON Schema, for editors and generated clients; which names exist only the server knows."""

from typing import Any

from queues.admission.world import JobShape, Near
from queues.spec.forms import (
    ANNOTATION_KEY,
    ENV_NAME,
    LABEL_KEY,
    MOST_GROUPS,
    MOST_LABELS,
    MOST_RETRIES,
    MOST_TASKS,
    MOST_UNITS,
    NAME,
    NAME_SAYS,
    NODE_KEY,
)
from queues.spec.mounts import MOST_VOLUMES
from queues.spec.topology import MOST_SKEW
from queues.spec.values import API_VERSION, TEST_ANNOTATIONS

Schema = dict[str, Any]


def _text(description: str = "", *, most: int | None = None, pattern: str = "") -> Schema:
    found: Schema = {"type": "string"}
    found |= {"description": description} if description else {}
    found |= {"maxLength": most} if most else {}
    return found | ({"pattern": f"^{pattern}$"} if pattern else {})


def _mapping(description: str, keys: str, value: Schema, most: int) -> Schema:
    names = {"pattern": f"^{keys}$"}
    return {
        "type": "object",
        "description": description,
        "maxProperties": most,
        "propertyNames": names,
        "additionalProperties": value,
    }


def _fields(description: str, required: list[str], properties: Schema) -> Schema:
    return {
        "type": "object",
        "description": description,
        "required": required,
        "additionalProperties": False,
        "properties": properties,
    }


def _texts(description: str, most: int) -> Schema:
    return {"type": "array", "description": description, "maxItems": most, "items": {"type": "string"}}


_DURATION: Schema = {
    "type": ["string", "integer"],
    "minimum": 0,
    "description": 'Like "12h", "90m", "1d6h", or whole seconds.',
}
_QUANTITY: Schema = {"type": ["string", "number"], "description": 'Like 4, 0.5, "500m" cores, or "16Gi" of memory.'}
_BOUND: Schema = {"type": "integer", "minimum": 1, "maximum": MOST_TASKS}
_NUMBER: Schema = {**_BOUND, "default": 1}
_TASKS: Schema = {
    "description": "How many; of an elastic job how many start together (min) and may run at most (max).",
    "anyOf": [_NUMBER, _fields("Of an elastic job.", ["max"], {"min": _NUMBER, "max": _BOUND})],
}
_COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": MOST_UNITS}
_TYPE: Schema = {
    "description": "GPU types by name, in order of wish; without it any that the team may have.",
    "anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}],
}
_GPUS: Schema = {
    "description": "Per task.",
    "anyOf": [
        _fields("Count and types.", ["count"], {"count": _COUNT, "type": _TYPE}),
        _text("TYPE:COUNT, like h100:8.", pattern=r"[a-z0-9-]{1,63}:\d{1,9}"),
    ],
}
_RUN = _fields(
    "What a task runs.",
    ["image"],
    {
        "image": _text(most=500),
        "command": _texts("Replaces the image's entry point.", 500),
        "args": _texts("Replaces the image's arguments.", 2000),
        "env": _mapping("Environment.", ENV_NAME.pattern, {"type": "string"}, 200),
        "secrets": _texts("Kubernetes Secrets whose keys become environment.", 20),
        "secret_env": _mapping("Variables from keys of Secrets.", ENV_NAME.pattern, _text("SECRET/KEY."), 200),
        "pull_secrets": _texts("Kubernetes Secrets with which the image is pulled.", 20),
        "pre_stop": _texts("A command that runs before the task is told to end; its time is part of the grace.", 500),
        "service_account": _text("A ServiceAccount of the team, where the team may use some.", most=253),
        "volumes": {
            "type": "array",
            "maxItems": MOST_VOLUMES,
            "description": "What is mounted: claims, scratch space, and paths of the node where the team may.",
            "items": _fields(
                "One of claim, size and host.",
                ["path"],
                {
                    "path": _text("Where it is mounted.", most=255),
                    "claim": _text("A PersistentVolumeClaim of the team.", most=253),
                    "size": {**_QUANTITY, "description": "Scratch space that goes with the task."},
                    "memory": {"type": "boolean", "default": False, "description": "Scratch space in memory."},
                    "host": _text("A path of the node.", most=255),
                    "read_only": {"type": "boolean", "default": False},
                },
            ),
        },
    },
)
_SHARED: Schema = {
    "gpus": _GPUS,
    "resources": _fields(
        "Per task; what is left out is the GPU type's usual share.",
        [],
        {"cpu": _QUANTITY, "memory": _QUANTITY, "shm": _QUANTITY},
    ),
    "run": _RUN,
    "node_labels": _mapping("Labels that the node must have.", NODE_KEY.pattern, {"type": "string"}, 16),
    "annotations": _mapping(f"For tests: {TEST_ANNOTATIONS}….", ANNOTATION_KEY.pattern, {"type": "string"}, 16),
}
_TOPOLOGY = _fields(
    "How close together: one of required, preferred and spread, with a level of the topology or node.",
    [],
    {
        **{near.value: {"type": "string"} for near in Near},
        "max_skew": {"type": "integer", "minimum": 1, "maximum": MOST_SKEW},
    },
)
_METADATA = _fields(
    "Whose job it is and what it is called.",
    ["name"],
    {
        "name": _text(NAME_SAYS, most=200, pattern=NAME.pattern),
        "team": _text("Needed by members of several teams."),
        "queue": {"type": "string", "default": "default"},
        "external_id": _text("Yours; taken by one live job of the team at a time.", most=200),
        "labels": _mapping("Yours, to find it by.", LABEL_KEY.pattern, _text(most=200), MOST_LABELS),
    },
)
_BODY = _fields(
    "What it needs and how it runs. Groups of a gang take from here what they leave out.",
    [],
    {
        "shape": {
            "enum": [shape.value for shape in JobShape],
            "default": JobShape.INDEPENDENT.value,
            "description": (
                "independent: each task starts and ends alone; gang: all together; "
                "elastic: min of them together, then up to max wherever others leave room."
            ),
        },
        "tasks": _TASKS,
        "topology": _TOPOLOGY,
        **_SHARED,
        "groups": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_GROUPS,
            "items": _fields(
                "Equal tasks.",
                ["name"],
                {"name": {"type": "string"}, "tasks": _TASKS, "topology": _TOPOLOGY, **_SHARED},
            ),
        },
        "manifest": {
            "type": "object",
            "description": "A Kubernetes object to run as it is written, instead of tasks, resources and run.",
        },
        "time_limit": {**_DURATION, "description": 'Like "12h"; "none" where the queue allows it.'},
        "priority": {"type": "string", "description": "A priority class by name."},
        "borrow": {"type": "boolean", "default": True, "description": "false: start only inside the guarantee."},
        "grace": {**_DURATION, "default": "30s"},
        "retries": {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES, "default": 0},
    },
)
SCHEMA: Schema = _fields(
    "A job as a compact spec.",
    ["apiVersion", "kind", "metadata", "spec"],
    {"apiVersion": {"const": API_VERSION}, "kind": {"const": "Job"}, "metadata": _METADATA, "spec": _BODY},
)
