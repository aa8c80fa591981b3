"""The form of a new job: the compact spec in fields, both ways; what values mean is checked where specs are read."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from django import forms

from queues.spec import API_VERSION
from queues.spec.fields import escape
from tenants.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Json = dict[str, Any]
LONGEST = 20_000
SHAPES = ("independent", "gang", "elastic")
ELASTIC = "elastic"
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
    "/spec/run/args": "args",
    "/spec/run/secrets": "secrets",
    "/spec/run/secret_env": "secret_env",
    "/spec/run/pull_secrets": "pull_secrets",
    "/spec/run/pre_stop": "pre_stop",
    "/spec/run/service_account": "service_account",
    "/spec/run/volumes": "volumes",
    "/spec/node_labels": "node_labels",
    "/spec/topology": "near",
    "/spec/borrow": "borrow",
    **{pointer: name for name, pointer in PLAIN.items()},
}


MORE = ("env", "secrets", "cpu", "memory", "retries", "external_id", "labels")
ADVANCED = (
    *("near", "volumes", "shm", "secret_env", "pull_secrets", "args", "service_account", "node_labels"),
    *("pre_stop", "grace"),
)
# Fields of lines KEY=VALUE, and fields that are read as a shell reads words.
MAPPINGS = {"env": "/spec/run/env", "secret_env": "/spec/run/secret_env", "labels": "/metadata/labels"} | {
    "node_labels": "/spec/node_labels"
}
COMMANDS = {"command": "/spec/run/command", "args": "/spec/run/args", "pre_stop": "/spec/run/pre_stop"}
FLAGS = ("memory", "read_only")
# How close together tasks may want to be, in words for a level such as rack.
NEAR = {"preferred": "In one {} if possible", "required": "Only in one {}", "spread": "Spread over {}s"}


def one_line(
    label: str | None = None,
    *,
    says: str = "",
    placeholder: str = "",
    initial: str | None = None,
    numeric: bool = False,
) -> forms.CharField:
    """Return a field of one line without the browser's own guesses."""
    attributes = {"autocomplete": "off", "spellcheck": "false", "placeholder": placeholder}
    attributes |= {"inputmode": "numeric"} if numeric else {}
    widget = forms.TextInput(attrs={name: value for name, value in attributes.items() if value})
    return forms.CharField(
        label=label, required=False, max_length=LONGEST, initial=initial, help_text=says, widget=widget
    )


def few_lines(label: str | None = None, *, says: str, placeholder: str, rows: int = 3) -> forms.CharField:
    """Return a field of a few lines."""
    widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "placeholder": placeholder})
    return forms.CharField(label=label, required=False, max_length=LONGEST, help_text=says, widget=widget)


class JobForm(forms.Form):
    """One job of equal tasks; numbers stay text here, so that one reader says what is wrong with them."""

    name = one_line(placeholder="llama-sft", says="Letters, digits, '.', '_' and '-'.")
    line = forms.ChoiceField(label="Team and queue", required=False)
    shape = forms.ChoiceField(choices=[(shape, shape) for shape in SHAPES], required=False, initial=SHAPES[0])
    tasks = one_line(initial="1", numeric=True)
    least = one_line("At least", initial="1", numeric=True, says="Tasks that start together and are never fewer.")
    most = one_line("At most", placeholder="8", numeric=True, says="Tasks that it may grow to.")
    gpus = one_line("GPUs a task", initial="1", numeric=True)
    gpu_type = forms.ChoiceField(label="GPU type", required=False)
    also = forms.MultipleChoiceField(label="Also takes", required=False, widget=forms.CheckboxSelectMultiple)
    image = one_line(placeholder="registry.example/training:1.4")
    command = one_line(placeholder="torchrun train.py", says="As in a shell. Empty: what the image runs.")
    time_limit = one_line(placeholder="12h", says="12h, 90m, 1d6h. Empty: the queue's own.")
    priority = forms.ChoiceField(required=False)
    borrow = forms.BooleanField(required=False, initial=True)

    env = few_lines("Environment", placeholder="WANDB_PROJECT=llama\nSEED=7", says="One NAME=value a line.")
    secrets = one_line(
        placeholder="hf-token, s3-key", says="Names of Kubernetes Secrets of the team: each key a variable."
    )
    cpu = one_line("CPU a task", placeholder="by GPU type")
    memory = one_line("Memory a task", placeholder="by GPU type")
    retries = one_line(placeholder="0", numeric=True, says="Own failures only.")
    external_id = one_line("External id", placeholder="airflow/dag1/3", says="Unique in the team.")
    labels = few_lines(rows=2, placeholder="project=llama", says="One key=value a line.")

    volumes = few_lines(
        placeholder="/data claim=corpus read_only\n/scratch size=200Gi",
        says=(
            "One a line: where it is mounted, then claim=NAME of a PersistentVolumeClaim of the team, or size=100Gi of "
            "scratch space that goes with the task. Behind that, if wanted: read_only; memory, for scratch in memory."
        ),
    )
    shm = one_line("Shared memory", placeholder="64Gi", says="The size of /dev/shm, which data loaders and NCCL use.")
    secret_env = few_lines(
        "Variables from Secrets",
        placeholder="HF_TOKEN=hf/token",
        says="One NAME=SECRET/KEY a line. Only the reference is stored, never the value.",
    )
    pull_secrets = one_line(
        "Pull secrets", placeholder="registry-login", says="Secrets with which the image is pulled."
    )
    args = one_line("Arguments", placeholder="--epochs 3", says="In place of the image's own arguments. As in a shell.")
    service_account = one_line(
        "Service account", placeholder="trainer", says="Where a platform admin allows the team some."
    )
    near = forms.ChoiceField(
        label="Close together",
        required=False,
        help_text="What tasks want that talk to each other: a short way, or for safety none in common.",
    )
    node_labels = few_lines(
        "Only on nodes with", rows=2, placeholder="zone=a", says="Node labels, one key=value a line."
    )
    pre_stop = one_line("Before the stop", placeholder="python save.py", says="Runs before the task is told to end.")
    grace = one_line(
        "Time to save", placeholder="30s", says="Between a recall and the stop, the command before the stop included."
    )

    def __init__(self, *args: Any, choices: Mapping[str, list[str]], **kwargs: Any) -> None:  # noqa: ANN401  Django's
        """Offer the lines, GPU types, priority classes and levels of the topology that the person may use."""
        super().__init__(*args, **kwargs)
        for field, key in (("line", "lines"), ("gpu_type", "flavors"), ("also", "flavors"), ("priority", "priorities")):
            self.fields[field].choices = [(name, name) for name in choices[key]]  # type: ignore[attr-defined]
        self.fields["near"].choices = [("", "Anywhere"), *nearness(choices["levels"], self["near"].value())]  # type: ignore[attr-defined]
        self.initial.setdefault("priority", "normal")

    def show(self, errors: Iterable[FieldError]) -> list[FieldError]:
        """Put errors beside their fields, and return those that belong to no field."""
        left = []
        for error in errors:
            field = field_of(error.pointer)
            if field:
                self.add_error(field, told(error))
            else:
                left.append(error)
        return left

    @property
    def more_open(self) -> bool:
        """Whether the part with environment and labels has something to show."""
        return self._says(MORE)

    @property
    def advanced_open(self) -> bool:
        """Whether the advanced part has something to show."""
        return self._says(ADVANCED)

    def _says(self, names: Iterable[str]) -> bool:
        return any(self[name].value() or self[name].errors for name in names)


def told(error: FieldError) -> str:
    """Return an error in words beside its field; in a list with the entry that it is about."""
    _, _, place = error.pointer.partition("/spec/run/volumes/")
    number = place.partition("/")[0]
    return f"Volume {int(number) + 1}: {error.detail}" if number.isdecimal() else error.detail


def faults(values: Mapping[str, Any]) -> list[FieldError]:
    """Return what fields say that no spec can: a key twice, a quote that is left open."""
    found = []
    for name, pointer in MAPPINGS.items():
        keys = [cut.partition("=")[0].strip() for cut in str(values.get(name) or "").splitlines() if cut.strip()]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            detail = f"{', '.join(twice)} {'is' if len(twice) == 1 else 'are'} there twice; say each once"
            found.append(FieldError(pointer=pointer, code="twice", detail=detail))
    for name, pointer in COMMANDS.items():
        if not closed(str(values.get(name) or "")):
            detail = "a quote is left open; close it, or write it with a backslash before it"
            found.append(FieldError(pointer=pointer, code="open_quote", detail=detail))
    for place, words in enumerate(rows_of(values.get("volumes"))):
        if not closed(words):
            found.append(
                FieldError(
                    pointer=f"/spec/run/volumes/{place}", code="open_quote", detail="a quote is left open; close it"
                )
            )
    return found


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
        "args": split(values.get("args") or ""),
        "env": pairs(values.get("env") or ""),
        "secrets": named(values.get("secrets")),
        "secret_env": pairs(values.get("secret_env") or ""),
        "pull_secrets": named(values.get("pull_secrets")),
        "pre_stop": split(values.get("pre_stop") or ""),
        "service_account": values.get("service_account"),
        "volumes": [volume(words) for words in rows_of(values.get("volumes"))],
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
        "topology": wish(values.get("near")),
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


def values_of(spec: object) -> dict[str, Any]:
    """Return the fields that say the same as a spec, as far as there are any: see ``left_out``."""
    metadata, body = inside(spec, "metadata"), inside(spec, "spec")
    gpus, run, resources, tasks = (inside(body, key) for key in ("gpus", "run", "resources", "tasks"))
    near_by = inside(body, "topology")
    given, types = body.get("gpus"), gpus.get("type")
    if isinstance(given, str):
        kind, _, count = given.partition(":")
        gpus, types = {"count": count}, kind
    types = [types] if isinstance(types, str) else listed(types)
    return {
        "name": text(metadata.get("name")),
        "line": f"{text(metadata.get('team'))}/{text(metadata.get('queue')) or 'default'}",
        "external_id": text(metadata.get("external_id")),
        "labels": joined(metadata.get("labels")),
        "shape": text(body.get("shape")) or SHAPES[0],
        "tasks": "" if tasks else text(body.get("tasks")),
        "least": text(tasks.get("min")),
        "most": text(tasks.get("max")),
        "gpus": text(gpus.get("count")),
        "gpu_type": text(types[0]) if types else "",
        "also": [text(kind) for kind in types[1:]],
        "image": text(run.get("image")),
        **{key: shlex.join(map(text, listed(run.get(key)))) for key in COMMANDS},
        "env": joined(run.get("env")),
        "secret_env": joined(run.get("secret_env")),
        "secrets": ", ".join(map(text, listed(run.get("secrets")))),
        "pull_secrets": ", ".join(map(text, listed(run.get("pull_secrets")))),
        "service_account": text(run.get("service_account")),
        "volumes": "\n".join(words_of(row) for row in listed(run.get("volumes"))),
        "borrow": body.get("borrow", True) is not False,
        "node_labels": joined(body.get("node_labels")),
        "near": next((f"{near}:{text(near_by[near])}" for near in NEAR if near in near_by), ""),
        **{key: text(resources.get(key)) for key in ("cpu", "memory", "shm")},
        **{key: text(body.get(key)) for key in ("time_limit", "priority", "grace", "retries")},
    }


def left_out(spec: object) -> tuple[str, ...]:
    """Return the pointers of what a spec says and the fields of ``values_of`` would not say again."""
    if not isinstance(spec, dict):
        return ("",)
    said, again = (dict(leaves(usual(each), "")) for each in (spec, spec_of(values_of(spec))))
    return tuple(pointer for pointer, value in said.items() if again.get(pointer) != value)


def usual(spec: Mapping[str, Any]) -> Json:
    """Return a spec with its short forms written out, and what goes without saying."""
    metadata, body = inside(spec, "metadata"), inside(spec, "spec")
    gpus = body.get("gpus")
    if isinstance(gpus, str):
        kind, _, count = gpus.partition(":")
        gpus = {"type": [kind], "count": count}
    elif isinstance(gpus, dict) and isinstance(gpus.get("type"), str):
        gpus = {**gpus, "type": [gpus["type"]]}
    body = {"shape": SHAPES[0], "borrow": True, **body} | ({} if gpus is None else {"gpus": gpus})
    return {**spec, "metadata": {"queue": "default", **metadata}, "spec": body}


def leaves(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield what a value says by pointer, as it would be typed; what is empty says nothing."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, f"{pointer}/{escape(key)}")
    elif value not in (None, "") or "/env/" in pointer:
        yield pointer, str(value)


def inside(value: object, key: str) -> Json:
    """Return a mapping inside of a mapping, an empty one where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def listed(value: object) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def named(typed: object) -> list[str]:
    """Return names that are typed with commas or blanks between them."""
    return [word for word in re.split(r"[,\s]+", str(typed or "")) if word]


def rows_of(typed: object) -> list[str]:
    """Return the lines that say something."""
    return [row for row in str(typed or "").splitlines() if row.strip()]


def volume(words: str) -> Json:
    """Return the volume that a line says: its path, ``claim=…`` or ``size=…``, and flags."""
    path, *rest = split(words) or [""]
    found: Json = {"path": path}
    for word in rest:
        key, equals, value = word.partition("=")
        found[key] = True if key in FLAGS and not equals else number(value) if key == "size" else value
    return found


def nearness(levels: Iterable[str], chosen: object) -> Iterator[tuple[str, str]]:
    """Yield how close together tasks may want to be, and what is chosen where no level is named so."""
    offered = {f"{near}:{level}": say.format(level) for level in levels for near, say in NEAR.items()}
    yield from offered.items()
    if chosen and chosen not in offered:
        yield str(chosen), str(chosen)


def wish(chosen: object) -> Json:
    """Return the topology that a choice such as ``required:rack`` says, an empty one for none."""
    near, _, level = str(chosen or "").partition(":")
    return {near: level} if near else {}


def words_of(row: object) -> str:
    """Return a volume as the line that says it."""
    if not isinstance(row, dict):
        return ""
    words = [text(row.get("path"))]
    for key, value in sorted(row.items(), key=lambda item: (item[0] in FLAGS, item[0])):
        if key in FLAGS:
            words += [key] if value is True else [] if value is False else [f"{key}={text(value)}"]
        elif key != "path":
            words.append(f"{key}={text(value)}")
    return shlex.join(words)


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


def closed(words: str) -> bool:
    """Return whether every quote of a command is closed."""
    try:
        shlex.split(words)
    except ValueError:
        return False
    return True


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
    return "\n".join(f"{key}={text(value)}" for key, value in mapping.items()) if isinstance(mapping, dict) else ""


def text(value: object) -> str:
    """Return a value as it is typed."""
    return "" if value is None else str(value)
