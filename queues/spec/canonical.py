"""A spec as plain JSON: what is stored and shown, and what reads back as the same spec."""

from typing import Any

from queues.spec import amounts, manifest
from queues.spec.values import API_VERSION, Run, Spec, SpecGroup, SpecTopology, Volume

Json = dict[str, Any]


def to_json(spec: Spec) -> Json:
    """Return the canonical form, every default spelt out."""
    body: Json = {"shape": spec.shape.value}
    if spec.manifest is not None:
        types = dict.fromkeys(flavor.name for group in spec.groups for flavor in group.flavors)
        body |= {"manifest": spec.manifest, "gpus": {"type": list(types)}, **_topology(_whole_topology(spec))}
    elif len(spec.groups) == 1:
        body |= _group(spec.groups[0])
    else:
        body["groups"] = [{"name": group.name, **_group(group)} for group in spec.groups]
        body |= _topology(spec.topology)
    body |= {
        "time_limit": "none" if spec.time_limit is None else amounts.duration_text(spec.time_limit),
        "priority": spec.priority.name,
        "borrow": spec.borrow,
        "grace": amounts.duration_text(spec.grace),
        "retries": spec.retries,
    }
    metadata: Json = {"name": spec.name, "team": spec.team.name, "queue": spec.queue.name}
    if spec.external_id is not None:
        metadata["external_id"] = spec.external_id
    if spec.labels:
        metadata["labels"] = dict(spec.labels)
    return {"apiVersion": API_VERSION, "kind": "Job", "metadata": metadata, "spec": body}


def _whole_topology(spec: Spec) -> SpecTopology | None:
    return spec.topology if len(spec.groups) > 1 else spec.groups[0].topology


def _group(group: SpecGroup) -> Json:
    resources = {"cpu": amounts.cpu_text(group.cpu_milli), "memory": amounts.memory_text(group.memory)}
    if group.run.shm:
        resources["shm"] = amounts.memory_text(group.run.shm)
    found: Json = {
        "tasks": group.tasks if group.most is None else {"min": group.tasks, "max": group.most},
        "gpus": {"count": group.units, "type": [flavor.name for flavor in group.flavors]},
        "resources": resources,
        "run": _run(group.run),
        **_topology(group.topology),
    }
    if group.run.node_labels:
        found["node_labels"] = dict(group.run.node_labels)
    if group.run.annotations:
        found["annotations"] = dict(group.run.annotations)
    return found


def _topology(wish: SpecTopology | None) -> Json:
    if wish is None:
        return {}
    skew = {} if wish.max_skew is None else {"max_skew": wish.max_skew}
    return {"topology": {wish.near.value: wish.level, **skew}}


def _run(run: Run) -> Json:
    parts: Json = {
        "command": list(run.command),
        "args": list(run.args),
        "env": dict(run.env),
        "secrets": list(run.secrets),
        "secret_env": dict(run.secret_env),
        "pull_secrets": list(run.pull_secrets),
        "pre_stop": list(run.pre_stop),
        "service_account": run.service_account,
        "volumes": [_volume(volume) for volume in run.volumes],
    }
    return {"image": run.image, **{key: value for key, value in parts.items() if value}}


def _volume(volume: Volume) -> Json:
    parts: Json = {
        "path": volume.path,
        "claim": volume.claim,
        "host": volume.host,
        "size": amounts.memory_text(volume.size) if volume.size else "",
        "memory": volume.memory,
        "read_only": volume.read_only,
    }
    return {key: value for key, value in parts.items() if value}


def _stored_volume(row: Json) -> Volume:
    size = amounts.memory(row.get("size", 0))
    return Volume(**{**row, "size": size})


def runs(stored: Json) -> tuple[Run, ...]:
    """Return what each group of a stored canonical spec runs, in the order of the groups."""
    body = stored["spec"]
    if "manifest" in body:
        return tuple(Run(image=image) for image in manifest.images(body["manifest"]))
    return tuple(_stored_run(row) for row in body.get("groups", [body]))


def _stored_run(row: Json) -> Run:
    run = row["run"]
    return Run(
        image=run["image"],
        command=tuple(run.get("command", ())),
        args=tuple(run.get("args", ())),
        env=tuple(sorted(run.get("env", {}).items())),
        secrets=tuple(run.get("secrets", ())),
        secret_env=tuple(sorted(run.get("secret_env", {}).items())),
        pull_secrets=tuple(run.get("pull_secrets", ())),
        pre_stop=tuple(run.get("pre_stop", ())),
        service_account=run.get("service_account", ""),
        volumes=tuple(map(_stored_volume, run.get("volumes", ()))),
        shm=amounts.memory(row["resources"].get("shm", 0)),
        node_labels=tuple(sorted(row.get("node_labels", {}).items())),
        annotations=tuple(sorted(row.get("annotations", {}).items())),
    )
