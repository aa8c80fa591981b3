"""A soak from its first process to its verdict: load and mischief, then calm, then all must agree."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from django.utils import timezone

from clusters.kube import KubeCluster, connect
from clusters.meddler import CALM, Meddler, Weather
from queues.benchmarks import home
from queues.models import ClusterState, Decision, Job, Wave
from queues.soak import checks
from queues.soak.drawing import Draw, Fate, draw
from queues.soak.ground import QUOTAS, Ground
from queues.soak.makers import Makers
from queues.soak.mischief import Mischief
from queues.soak.operators import Operators
from queues.soak.people import People
from queues.soak.witness import Creations, Meter
from queues.states import ACTIVE, ENDED, JobState
from stack.ensemble import Ensemble

SETTINGS = {"TIDEGATE_KEEP_SECONDS": "2", "TIDEGATE_TICK_SECONDS": "2", "TIDEGATE_RELIST_SECONDS": "10"}
# Nothing that can happen by itself takes longer than some start limits and back-offs of a minute, on a busy machine.
QUIET_SECONDS = 600.0
MOST_WAITING = 120
# Jobs of these fates do not end by themselves, or only after back-offs of minutes.
GIVEN_UP = frozenset({Fate.ENDLESS, Fate.NEVER_FITS, Fate.NEVER_STARTS})
# So many of them are there at a time; older ones are given up, or soon they would hold every GPU.
MOST_ENDLESS = 8
TELL_SECONDS = 10.0
LOCK_SECONDS = 10.0

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long (seconds of load, or jobs, whatever comes first) and how rough; ``kubeconfig`` None: an emulator."""

    seconds: float
    jobs: int
    seed: int
    kubeconfig: Path | None = None
    kill_every: float = 20.0
    meddle_every: float = 3.0
    weather: Weather = field(default_factory=Weather)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a soak found: what disagrees (nothing, where all is well), and what happened."""

    wrong: tuple[str, ...]
    numbers: dict[str, Any]


def soak(plan: Plan, folder: Path, *, say: Say) -> Verdict:
    """Run a soak in a folder; everything that was started is gone afterwards."""
    ensemble = Ensemble(folder, clusters=f"soak={folder / 'weather.kubeconfig'}", env=SETTINGS)
    try:
        ensemble.prepare()
        home.settle(ensemble)
        direct = plan.kubeconfig or ensemble.emulate("--installed")
        cluster = connect("soak", kubeconfig=direct)
        with Meddler(direct, seed=plan.seed, weather=CALM) as meddler:
            meddler.kubeconfig(folder / "weather.kubeconfig")
            soak = _Soak(plan, ensemble, cluster, meddler, say)
            with Operators(connect("operators", kubeconfig=direct), soak.kinds):
                return soak.run()
    finally:
        ensemble.close()


class _Soak:
    def __init__(self, plan: Plan, ensemble: Ensemble, cluster: KubeCluster, meddler: Meddler, say: Say) -> None:
        self.plan, self.ensemble, self.meddler, self.say = plan, ensemble, meddler, say
        self.ground = Ground(cluster)
        self.random = Random(plan.seed)  # noqa: S311  a soak is no secret
        self.kinds = self.ground.kinds()
        self.draws: dict[str, Draw] = {}
        self.endless: list[str] = []
        self.given_up: set[str] = set()
        self.begun = time.monotonic()

    def run(self) -> Verdict:
        token = self.ground.open()
        self.ensemble.start()
        self.ensemble.wait_for_web()
        self.ground.wait()
        self.people = People(address=self.ensemble.address, token=token, random=self.random)
        self.makers = Makers(self.ground, self.random)
        self.mischief = Mischief(self.ensemble, self.ground, self.people, self.makers)
        creations, meter = Creations(self.ground.cluster), Meter()
        try:
            self.begun = time.monotonic()
            self.load()
            load_seconds = time.monotonic() - self.begun
            self.calm_down()
            wrong = self.wait_until_quiet()
            meter.stop()
            wrong += sorted(meter.wrong) + creations.twice(deleted=self.mischief.deleted, passed=self.meddler.passed)
            wrong += self.mischief.wrong
            numbers = self.numbers() | {
                "seconds of load": round(load_seconds),
                "seconds until quiet": round(time.monotonic() - self.begun - load_seconds),
                "Kubernetes Jobs created": sum(len(uids) for uids in creations.seen.values()),
                "looks at the ledger": meter.looks,
            }
            wrong += self.stop_processes()
            return Verdict(wrong=tuple(wrong), numbers=numbers)
        finally:
            creations.stop()
            meter.stop()
            self.ground.close()

    def load(self) -> None:
        """Submit, change minds, kill and meddle until time or jobs are used up."""
        self.meddler.weather = self.plan.weather
        end = self.begun + self.plan.seconds
        kill, meddle, tell = (self.begun + each for each in (self.plan.kill_every, self.plan.meddle_every, 0.0))
        while (now := time.monotonic()) < end and len(self.draws) < self.plan.jobs:
            if Job.objects.filter(state=JobState.QUEUED).count() < MOST_WAITING:
                self.submit(self.random.randint(1, 20))
            self.people.ids |= self.makers.known()
            self.people.change_minds(2)
            self.give_up()
            self.mischief.supervise()
            if now > kill:
                self.mischief.kill()
                kill = time.monotonic() + self.plan.kill_every
            if now > meddle:
                self.mischief.meddle()
                meddle = time.monotonic() + self.plan.meddle_every
            if now > tell:
                self.tell("load")
                tell = time.monotonic() + TELL_SECONDS
            time.sleep(0.2)

    def submit(self, count: int) -> None:
        first = len(self.draws)
        numbers = range(first, first + count)
        new = [draw(self.random, number, teams=QUOTAS, kinds=self.kinds) for number in numbers]
        self.draws |= {each.name: each for each in new}
        self.endless += [each.name for each in new if each.fate in GIVEN_UP]
        self.people.submit([each for each in new if not each.made])
        for each in new:
            if each.made:
                self.makers.make(each)

    def give_up(self) -> None:
        """Cancel the oldest of those that would go on for ever."""
        while len(self.endless) > MOST_ENDLESS and self.endless[0] in self.people.ids:
            self.people.cancel(self.endless.pop(0))

    def give_up_all(self) -> None:
        """Cancel all that would go on for ever."""
        endless = {name for name, each in self.draws.items() if each.fate in GIVEN_UP}
        # What somebody made may have become a job since they were asked for.
        known = endless & self.people.ids.keys() - self.given_up
        for name in sorted(known & set(self.active())):
            self.people.cancel(name)
            self.given_up.add(name)

    def calm_down(self) -> None:
        """End the faults, and start what was killed."""
        self.meddler.weather = CALM
        self.mischief.make_good()
        self.ensemble.wait_for_web()

    def wait_until_quiet(self) -> list[str]:
        """Wait until nothing disagrees any more; return what still does when patience is over."""
        end = time.monotonic() + QUIET_SECONDS
        tell = 0.0
        while True:
            self.mischief.supervise()
            self.people.ids |= self.makers.known()
            self.people.release_all(self.active(JobState.HELD))
            self.give_up_all()
            active = self.makers.unknown() + self.active()
            if not active and (ends := list(self.ends())):
                return ends
            wrong = [f"{len(active)} jobs have not ended: {', '.join(active[:5])}"] if active else list(self.look())
            if not wrong or time.monotonic() > end:
                return wrong
            if time.monotonic() > tell:
                self.tell(f"calm: {wrong[0]}")
                tell = time.monotonic() + TELL_SECONDS
            time.sleep(0.5)

    def ends(self) -> Iterator[str]:
        """Yield what is wrong with how jobs ended, which no waiting can heal."""
        unmade = self.makers.gone | self.makers.started | self.mischief.bereft()
        yield from checks.jobs_wrong(self.draws, self.people.cancelled, unmade)
        yield from checks.succeeded_wrong()

    def look(self) -> Iterator[str]:
        """Yield what still disagrees, or is left over."""
        yield from self.makers.collect()
        yield from checks.ledger_left()
        yield from checks.recount_wrong(timezone.now())
        yield from checks.cluster_left(self.ground)

    def active(self, *states: JobState) -> list[str]:
        rows = Job.objects.filter(state__in=states or sorted(ACTIVE)).order_by("id")
        return list(rows.values_list("name", flat=True))

    def stop_processes(self) -> list[str]:
        """Kill our processes; their locks have to go with them."""
        for name in ("beat", "worker", "watcher", "web"):
            self.ensemble.kill(name)
        end = time.monotonic() + LOCK_SECONDS
        while (left := list(checks.locks_left())) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def tell(self, what: str) -> None:
        done = Job.objects.filter(state__in=sorted(ENDED)).count()
        bad = sum(self.meddler.faults.values())
        kills = sum(count for word, count in self.mischief.done.items() if word.startswith("killed"))
        self.say(
            f"{time.monotonic() - self.begun:6.0f} s  {what}  {len(self.draws)} submitted  {done} ended"
            f"  {Decision.objects.count()} cycles  {Wave.objects.count()} waves  {bad} faults  {kills} kills"
        )

    def numbers(self) -> dict[str, Any]:
        ends = {state.value: Job.objects.filter(state=state).count() for state in sorted(ENDED)}
        evicted = sum(Job.objects.values_list("evictions", flat=True))
        return {
            "jobs": len(self.draws),
            **ends,
            "waves": Wave.objects.count(),
            "recalls": evicted,
            "cycles": Decision.objects.count(),
            "people": dict(sorted(self.people.done.items())),
            "makers": dict(sorted(self.makers.done.items())),
            "kinds": dict(sorted(Counter(Job.objects.exclude(kind="").values_list("kind", flat=True)).items())),
            "mischief": dict(sorted(self.mischief.done.items())),
            "faults": dict(sorted(self.meddler.faults.items())),
            "cluster": list(ClusterState.objects.values_list("name", flat=True)),
        }
