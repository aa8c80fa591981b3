"""What goes wrong during a soak: processes die, machines are cordoned, pods and Jobs are deleted by others."""

import time
from collections import Counter

from clusters.asking import Failure, path_of
from clusters.kinds import BY_KEY, JOB
from clusters.port import ClusterError
from queues.models import Job
from queues.soak.ground import FLAVOR, QUOTAS, Ground
from queues.soak.makers import Makers
from queues.soak.people import People
from stack.ensemble import OURS, Ensemble

# The worker and the watcher do most, and die most often.
VICTIMS = ("worker", "worker", "watcher", "watcher", "beat", "web", "valkey")
DEAD_SECONDS = (0.0, 0.5, 2.0)
# Celery ends a process that loses its broker while it connects; whoever runs it starts it again.
MAY_END = frozenset({"worker", "beat"})


class Mischief:
    """Does one bad thing at a time and remembers what has to be made good."""

    def __init__(self, ensemble: Ensemble, ground: Ground, people: People, makers: Makers) -> None:
        """Nothing bad happens yet."""
        self.ensemble, self.ground, self.people, self.makers = ensemble, ground, people, makers
        self.random = people.random
        self.done: Counter[str] = Counter()
        self.cordoned: set[str] = set()
        self.wrong: list[str] = []
        self.deleted: set[tuple[str, int]] = set()
        self.struck: set[str] = set()

    def kill(self) -> None:
        """Kill a process without a word, and start it again after a while."""
        name = self.random.choice(VICTIMS)
        if name == "valkey":
            self.ensemble.restart_valkey()
        else:
            self.ensemble.kill(name)
            time.sleep(self.random.choice(DEAD_SECONDS))
            self.ensemble.start(name)
        self.done[f"killed {name}"] += 1

    def supervise(self) -> None:
        """Start again what ended although nobody killed it, as whoever runs it does; note it where that is wrong."""
        for name in self.ensemble.ended():
            if name not in MAY_END:
                self.wrong.append(f"{name} ended by itself: {self.ensemble.words(name)[-300:]}")
            self.ensemble.kill(name)
            if name in OURS:
                self.ensemble.start(name)
            self.done[f"{name} ended by itself"] += 1

    def meddle(self) -> None:
        """Cordon or uncordon a machine, move a quota, or delete something in the cluster."""
        what = self.random.choice((self._cordon, self._quota, self._quota, self._delete, self._delete, self._unmake))
        try:
            what()
        except (Failure, ClusterError):
            self.done["could not"] += 1

    def bereft(self) -> set[str]:
        """Return the jobs whose own objects may have failed for it that we deleted pods of theirs."""
        jobs = Job.objects.filter(waves__uid__in=self.struck).exclude(kind="")
        return set(jobs.exclude(kind=JOB.key, object_uid=None).values_list("name", flat=True))

    def make_good(self) -> None:
        """Uncordon all and give every team its quota back; what died is started again."""
        for node in sorted(self.cordoned):
            self.ground.cordon(node, cordoned=False)
        self.cordoned.clear()
        for name in OURS:
            if name not in self.ensemble.running:
                self.ensemble.start(name)
        for team, guaranteed in QUOTAS.items():
            self._set_quota(team, guaranteed)

    def _cordon(self) -> None:
        node = self.random.choice(self.ground.nodes)
        self.ground.cordon(node, cordoned=node not in self.cordoned)
        self.cordoned ^= {node}
        self.done["cordons"] += 1

    def _quota(self) -> None:
        team = self.random.choice(sorted(QUOTAS))
        self._set_quota(team, self.random.randint(0, QUOTAS[team]))
        self.done["quotas"] += 1

    def _set_quota(self, team: str, guaranteed: int) -> None:
        self.people.surely("PATCH", f"/api/v1/quotas/{team}/{FLAVOR}", {"guaranteed": guaranteed})

    def _unmake(self) -> None:
        self.makers.change_mind()

    def _delete(self) -> None:
        there = self.ground.cluster.inventory()
        if self.random.random() < 0.5:  # noqa: PLR2004  a coin
            pods = [(pod, pod.wave) for pod in there.pods if pod.wave]
            if pods:
                pod, wave = self.random.choice(pods)
                self.struck.add(wave)
                self.ground.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
                self.done["deleted pods"] += 1
        elif there.waves:
            seen = self.random.choice(there.waves)
            self.deleted.add((seen.wave, seen.group))
            if seen.adopted:
                self.makers.gone.add(seen.name)
            kind = BY_KEY[seen.kind or JOB.key]
            self.ground.delete(f"{path_of(f'/apis/{kind.api}', seen.namespace, kind.plural)}/{seen.name}")
            self.done[f"deleted {kind.name}s"] += 1
