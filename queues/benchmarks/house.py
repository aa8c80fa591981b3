"""What the wall-clock benchmarks stand on: an ensemble, an emulated cluster, teams, and jobs by the ten thousand."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, connections
from django.utils import timezone

from clusters.budget import Budget
from clusters.kube import KubeCluster, connect
from queues import services, watcher
from queues.benchmarks import home
from queues.models import Job
from stack.ensemble import Ensemble
from tenants import services as tenants
from tenants.models import GlobalRole, User
from tenants.permissions import Actor, Scope, system

FLAVOR, LABEL, CLUSTER = "gpu", "gpu", "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """One Tidegate for a benchmark: its processes, its cluster, who submits, and with which token."""

    ensemble: Ensemble
    cluster: KubeCluster
    by: Actor
    token: str

    def look(self) -> None:
        """List the cluster once, as the watcher would."""
        watcher.Follower(CLUSTER, self.cluster, timezone.now).list()


@contextmanager
def house(*, nodes: int, units: int, teams: Sequence[str]) -> Iterator[House]:
    """Start databases and an emulator with so many nodes of so many units; the teams share all of them."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "kubeconfig"
        # Finished objects stay, so that their removal is not measured with the launches.
        env = {"TIDEGATE_KEEP_SECONDS": "3600"}
        ensemble = Ensemble(Path(folder), clusters=f"{CLUSTER}={path}", env=env)
        try:
            ensemble.prepare()
            home.settle(ensemble)
            settings.TIDEGATE_TEST_ANNOTATIONS = True  # by which jobs say how long their pretended pods run
            ensemble.emulate("--nodes", _world(Path(folder), nodes=nodes, units=units))
            by, token = _people(teams, installed=nodes * units)
            cluster = connect(CLUSTER, kubeconfig=path, budget=Budget(per_second=0))  # how fast the loop can tell
            found = House(ensemble=ensemble, cluster=cluster, by=by, token=token)
            found.look()
            yield found
            cluster.close()
        finally:
            connections.close_all()
            ensemble.close()


def spec(name: str, team: str, *, run_for: str = "1h", **body: Any) -> dict[str, Any]:  # noqa: ANN401  a spec's fields
    """Return a job of one GPU that runs for a while."""
    return {
        "apiVersion": "tidegate/v1",
        "kind": "Job",
        "metadata": {"name": name, "team": team},
        "spec": {
            "gpus": {"count": 1, "type": [FLAVOR]},
            "run": {"image": "registry.example/train:1", "command": ["train"]},
            "annotations": {"tidegate.test/run-for": run_for},
            **body,
        },
    }


def multiply(jobs: Sequence[Job], count: int) -> None:
    """Let so many further jobs wait, in turn like each of these; the database copies them with groups and events."""
    columns = [str(field.column) for field in Job._meta.concrete_fields if field.column != "id"]  # noqa: SLF001
    changed = {
        "uid": "gen_random_uuid()",
        "external_id": "NULL",
        "submitted_at": "job.submitted_at + number * interval '1 millisecond'",
        "wait_from": "job.wait_from + number * interval '1 millisecond'",
    }
    values = ", ".join(changed.get(column, f"job.{column}") for column in columns)
    ids = [job.id for job in jobs]
    each = -(-count // len(ids))
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(id) FROM queues_job")
        last = cursor.fetchone()[0]
        cursor.execute(
            f"INSERT INTO queues_job ({', '.join(columns)}) SELECT {values} FROM generate_series(1, %s) AS number,"  # noqa: S608
            " queues_job job WHERE job.id = ANY(%s) LIMIT %s",
            [each, ids, count],
        )
        cursor.execute(
            "INSERT INTO queues_taskgroup (job_id, index, name, tasks, units, cpu_milli, memory, flavors, node_labels)"
            " SELECT job.id, 0, '', old.tasks, old.units, old.cpu_milli, old.memory, old.flavors, old.node_labels"
            " FROM queues_job job JOIN queues_job first ON first.id = ANY(%s) AND first.name = job.name"
            " JOIN queues_taskgroup old ON old.job_id = first.id WHERE job.id > %s",
            [ids, last],
        )
        cursor.execute(
            "INSERT INTO queues_jobevent (job_id, at, type, actor, summary, details)"
            " SELECT id, submitted_at, 'submitted', 'bench', 'Submitted', '{}' FROM queues_job WHERE id > %s",
            [last],
        )
        for table in ("queues_job", "queues_taskgroup", "queues_jobevent"):
            cursor.execute(f"ANALYZE {table}")


def submit(found: House, names: Sequence[tuple[str, str]], **body: Any) -> list[Job]:  # noqa: ANN401  a spec's fields
    """Submit one job for each name and team."""
    specs = [spec(name, team, **body) for name, team in names]
    outcomes = services.submit_batch(specs=specs, by=found.by, now=timezone.now())
    jobs = [outcome.job for outcome in outcomes if isinstance(outcome, services.Submitted)]
    if len(jobs) != len(names):
        raise RuntimeError(f"refused: {outcomes}")
    return jobs


def rank(values: Sequence[float], share: float) -> float:
    """Return the value below which so large a share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _world(folder: Path, *, nodes: int, units: int) -> str:
    """Write what nodes the emulator starts with; return the file."""
    room = {"cpu": "1000", "memory": "8Ti", "pods": "5000", "nvidia.com/gpu": str(units)}
    path = folder / "world.yaml"
    path.write_text(json.dumps([{"name": "n{n}", "count": nodes, "labels": {LABEL: "yes"}, "allocatable": room}]))
    return str(path)


def _people(teams: Sequence[str], *, installed: int) -> tuple[Actor, str]:
    by, now = system(), timezone.now()
    tenants.create_flavor(by=by, now=now, name=FLAVOR, installed=installed, values={"node_labels": {LABEL: "yes"}})
    services.set_priority_class(name="normal", value=0, by=by, now=now)
    for team in teams:
        tenants.create_team(by=by, now=now, name=team)
    edits = [tenants.QuotaEdit(team=team, flavor=FLAVOR, guaranteed=installed // len(teams)) for team in teams]
    tenants.set_quotas(by=by, now=now, edits=edits)
    user = Actor(user=User.objects.create_user("bench", global_role=GlobalRole.ADMIN))
    secret = tenants.create_token(by=user, now=now, name="bench", scopes=[Scope.ADMIN]).secret
    return user, secret
