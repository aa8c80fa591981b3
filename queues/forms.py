"""The form of a new job: the compact spec in fields, both ways; what values mean is checked where specs are read."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from django import forms

from queues.spec import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tenants.errors import FieldError

Json = dict[str, Any]
LONGEST = 20_000
SHAPES = ("independent", "gang", "elastic")
ELASTIC = "elastic"
BOUNDS = frozenset({"min", "max"})
WHOLE = re.compile(r"-?\d{1,12}", re.ASCII)
PLAIN = {
    "time_limit": "/spec/time_limit",
    "priority": "/spec/priority",
    "grace": "/spec/grace",
    "retries": "/spec/retries",
    "cpu": "/spec/resources/cpu",
    "memory": "/spec/resources/memory",
    "shm": "/spec/resources/shm",
    "external_id": "/metadata/external_id",
}
FIELD_OF = {
    "/metadata/name": "name",
    "/metadata/team": "line",
    "/metadata/queue": "line",
    "/metadata/labels": "labels",
    "/spec/shape": "shape",
    "/spec/tasks": "tasks",
    "/spec/tasks/min": "least",
    "/spec/tasks/max": "most",
    "/spec/gpus/type": "gpu_type",
    "/spec/gpus/count": "gpus",
    "/spec/gpus": "gpus",
    "/spec/run/image": "image",
    "/spec/run/command": "command",
    "/spec/run/env": "env",
    "/spec/run/secrets": "secrets",
    "/spec/node_labels": "node_labels",
    "/spec/borrow": "borrow",
    **{pointer: name for name, pointer in PLAIN.items()},
}


def words(**attributes: str | int) -> forms.TextInput:
    """Return a one-line input without the browser's own guesses."""
    return forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", **attributes})


def area(rows: int, placeholder: str = "") -> forms.Textarea:
    """Return a box for a few lines."""
    return forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "placeholder": placeholder})


class JobForm(forms.Form):
    """One job of equal tasks; numbers stay text here, so that one reader says what is wrong with them."""

    name = forms.CharField(max_length=LONGEST, required=False, widget=words(placeholder="llama-sft"))
    line = forms.ChoiceField(label="Team and queue", required=False)
    shape = forms.ChoiceField(choices=[(shape, shape) for shape in SHAPES], required=False, initial=SHAPES[0])
    tasks = forms.CharField(max_length=20, required=False, initial="1", widget=words(inputmode="numeric"))
    least = forms.CharField(
        label="At least", max_length=20, required=False, initial="1", widget=words(inputmode="numeric")
    )
    most = forms.CharField(
        label="At most", max_length=20, required=False, widget=words(inputmode="numeric", placeholder="8")
    )
    gpus = forms.CharField(
        label="GPUs a task", max_length=20, required=False, initial="1", widget=words(inputmode="numeric")
    )
    gpu_type = forms.ChoiceField(label="GPU type", required=False)
    also = forms.MultipleChoiceField(label="Also takes", required=False, widget=forms.CheckboxSelectMultiple)
    image = forms.CharField(
        max_length=LONGEST, required=False, widget=words(placeholder="registry.example/training:1.4")
    )
    command = forms.CharField(max_length=LONGEST, required=False, widget=words(placeholder="torchrun train.py"))
    env = forms.CharField(
        label="Environment", max_length=LONGEST, required=False, widget=area(3, "WANDB_PROJECT=llama\nSEED=7")
    )
    secrets = forms.CharField(max_length=LONGEST, required=False, widget=words(placeholder="hf-token, s3-key"))
    time_limit = forms.CharField(max_length=40, required=False, widget=words(placeholder="12h"))
    priority = forms.ChoiceField(required=False)
    borrow = forms.BooleanField(required=False, initial=True)
    cpu = forms.CharField(label="CPU a task", max_length=40, required=False, widget=words(placeholder="by GPU type"))
    memory = forms.CharField(
        label="Memory a task", max_length=40, required=False, widget=words(placeholder="by GPU type")
    )
    shm = forms.CharField(label="Shared memory", max_length=40, required=False, widget=words(placeholder="64Gi"))
    grace = forms.CharField(label="Time to save", max_length=40, required=False, widget=words(placeholder="30s"))
    retries = forms.CharField(max_length=20, required=False, widget=words(placeholder="0", inputmode="numeric"))
    external_id = forms.CharField(
        label="External id", max_length=LONGEST, required=False, widget=words(placeholder="airflow/dag1/3")
    )
    labels = forms.CharField(max_length=LONGEST, required=False, widget=area(2, "project=llama"))
    node_labels = forms.CharField(
        label="Only on nodes with", max_length=LONGEST, required=False, widget=area(2, "zone=a")
    )

    def __init__(self, *args: Any, choices: Mapping[str, list[str]], **kwargs: Any) -> None:  # noqa: ANN401  Django's
        """Offer the lines, GPU types and priority classes that the person may use."""
        super().__init__(*args, **kwargs)
        for field, key in (("line", "lines"), ("gpu_type", "flavors"), ("also", "flavors"), ("priority", "priorities")):
            self.fields[field].choices = [(name, name) for name in choices[key]]  # type: ignore[attr-defined]
        self.initial.setdefault("priority", "normal")

    def show(self, errors: Iterable[FieldError]) -> list[FieldError]:
        """Put errors beside their fields, and return those that belong to no field."""
        left = []
        for error in errors:
            field = field_of(error.pointer)
            if field:
                self.add_error(field, error.detail)
            else:
                left.append(error)
        return left


def field_of(pointer: str) -> str:
    """Return the field that shows what a pointer names or lies in, or nothing."""
    while pointer:
        if pointer in FIELD_OF:
            return FIELD_OF[pointer]
        pointer = pointer.rpartition("/")[0]
    return ""


def spec_of(values: Mapping[str, Any]) -> Json:
    """Return the compact spec that filled fields say; empty ones are left out."""
    team, _, queue = str(values.get("line") or "").partition("/")
    also = [kind for kind in values.get("also") or [] if kind != values.get("gpu_type")]
    types = [kind for kind in [values.get("gpu_type"), *also] if kind]
    run = {
        "image": values.get("image"),
        "command": split(values.get("command") or ""),
        "env": pairs(values.get("env") or ""),
        "secrets": [word for word in re.split(r"[,\s]+", values.get("secrets") or "") if word],
    }
    body = {
        "shape": values.get("shape"),
        "tasks": counts(values),
        "gpus": full({"count": number(values.get("gpus")), "type": types}),
        "resources": full({key: number(values.get(key)) for key in ("cpu", "memory", "shm")}),
        "run": full(run) or {"image": ""},
        "time_limit": values.get("time_limit"),
        "priority": values.get("priority"),
        "grace": values.get("grace"),
        "retries": number(values.get("retries")),
        "node_labels": pairs(values.get("node_labels") or ""),
    }
    metadata = {
        "name": values.get("name"),
        "team": team,
        "queue": queue,
        "external_id": values.get("external_id"),
        "labels": pairs(values.get("labels") or ""),
    }
    spec = full(body) | ({} if values.get("borrow") else {"borrow": False})
    return {"apiVersion": API_VERSION, "kind": "Job", "metadata": full(metadata), "spec": spec}


def values_of(spec: object) -> dict[str, Any] | None:
    """Return the fields that say the same as a spec, or None where the form has no field for all of it."""
    if (
        not isinstance(spec, dict)
        or not isinstance(spec.get("spec"), dict)
        or not isinstance(spec.get("metadata"), dict)
    ):
        return None
    metadata, body = spec["metadata"], spec["spec"]
    gpus, run, resources = body.get("gpus") or {}, body.get("run") or {}, body.get("resources") or {}
    if isinstance(gpus, str):
        kind, _, count = gpus.partition(":")
        gpus = {"type": [kind], "count": count}
    if not all(isinstance(part, dict) for part in (gpus, run, resources)):
        return None
    tasks = body.get("tasks")
    bounds = tasks if isinstance(tasks, dict) else {}
    if bounds and (body.get("shape") != ELASTIC or bounds.keys() - BOUNDS):
        return None
    types, secrets, command = gpus.get("type") or [], run.get("secrets") or [], run.get("command") or []
    types = [types] if isinstance(types, str) else types
    if not isinstance(types, list) or not isinstance(secrets, list):
        return None
    values = {
        "name": metadata.get("name", ""),
        "line": f"{metadata.get('team', '')}/{metadata.get('queue') or 'default'}",
        "external_id": metadata.get("external_id") or "",
        "labels": joined(metadata.get("labels")),
        "shape": body.get("shape") or SHAPES[0],
        "tasks": "" if isinstance(tasks, dict) else text(tasks),
        "least": text(bounds.get("min")),
        "most": text(bounds.get("max")),
        "gpus": text(gpus.get("count")),
        "gpu_type": types[0] if types else "",
        "also": types[1:],
        "image": run.get("image", ""),
        "command": shlex.join(map(str, command)) if isinstance(command, list) else text(command),
        "env": joined(run.get("env")),
        "secrets": ", ".join(map(str, secrets)),
        "borrow": body.get("borrow", True) is not False,
        "node_labels": joined(body.get("node_labels")),
        **{key: text(resources.get(key)) for key in ("cpu", "memory", "shm")},
        **{key: text(body.get(key)) for key in ("time_limit", "priority", "grace", "retries")},
    }
    return values if not body.keys() - SAID and not run.keys() - {"image", "command", "env", "secrets"} else None


SAID = {
    *("shape", "tasks", "gpus", "resources", "run", "time_limit", "priority", "borrow", "grace", "retries"),
    "node_labels",
}


def counts(values: Mapping[str, Any]) -> object:
    """Return how many tasks filled fields say: a number, of a flexible job from how many to how many."""
    if values.get("shape") != ELASTIC:
        return number(values.get("tasks"))
    return full({"min": number(values.get("least")), "max": number(values.get("most"))}) or {"max": None}


def full(values: Mapping[str, Any]) -> Json:
    """Return what is not empty."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def number(given: object) -> object:
    """Return a whole number as one, all else as it is."""
    words = str(given or "").strip()
    return int(words) if WHOLE.fullmatch(words) else words


def split(command: str) -> list[str]:
    """Return a command as the shell would split it; one with an open quote is one word, for the reader to see."""
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def pairs(lines: str) -> dict[str, str]:
    """Return lines of KEY=VALUE as a mapping; a line without ``=`` has an empty value."""
    cut = [line.partition("=") for line in lines.splitlines() if line.strip()]
    return {key.strip(): value.strip() for key, _, value in cut}


def joined(mapping: object) -> str:
    """Return a mapping as lines of KEY=VALUE."""
    return "\n".join(f"{key}={value}" for key, value in mapping.items()) if isinstance(mapping, dict) else ""


def text(value: object) -> str:
    """Return a value as it is typed."""
    return "" if value is None else str(value)
