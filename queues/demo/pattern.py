"""Which jobs the demo submits: sizes, run times and arrivals patterned on a public trace, speeded up.

The source is the Philly trace (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads", USENIX ATC 2019), in the form of 82,247 jobs that Pollux, Sia and ElasticFlow published. The constants are
fitted to it: mean and deviation of the logarithm of run times in seconds for each size, and the first harmonic of
arrivals over the day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queues.demo.cast import Party, teams

if TYPE_CHECKING:
    from random import Random

SPEED = 120  # seconds of the trace in a second of the demo: a day takes 12 minutes
DAY = 86_400 / SPEED
SWING, PEAK = 0.29, 4.5 / 24  # arrivals over the trace's day: 1 ± 0.29, most at half past four
SHORTEST, LONGEST = 4.0, 300.0  # seconds of the demo: the longest tenth of the trace would outlive every demo
LOAD = 1.1

# GPUs: (how often in percent, mean and deviation of ln(run time in seconds)). The run times are the trace's. How often
# is not: 93 % of its jobs have one GPU, mostly sweeps, which come here as jobs of many tasks.
SIZES = {
    1: (48, 6.72, 1.97),
    2: (10, 6.72, 1.97),  # the trace's two-GPU jobs are mostly aborted tests: take the times of one GPU
    4: (10, 9.11, 2.78),
    8: (9, 9.65, 2.79),
    16: (6, 8.94, 3.21),
    32: (1, 8.94, 3.21),
}
SWEEP_PERCENT, SWEEP_TASKS = 8, (20, 40, 100)  # the rest of a hundred: many small tasks
L40S_PERCENT = 65  # of jobs with at most four GPUs
FAILING = ((4, 1), (3, 137), (2, 2))  # percent of jobs, and the exit code with which they end
NO_IMAGE_PERCENT = 1
NODE = 8
# Of jobs that fill a node or more so many (in percent) take workers in and out: half a node each, and up to twice as
# many where GPUs idle. The trace knows no such jobs.
ELASTIC_PERCENT, WORKER = 20, 4

NAMES = {
    "nlp": ("llama-sft", "tokenizer", "rlhf-ppo", "eval-mmlu", "distill"),
    "vision": ("detr-large", "segment", "augment", "clip-probe"),
    "search": ("ranker", "embeddings", "click-model"),
    "speech": ("asr-conformer", "tts-vits", "diarize"),
    "genomics": ("fold", "variant-call", "embed-proteins"),
    "robotics": ("policy-ppo", "sim-sweep", "grasp"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A job to submit: who does it, the spec, and its units and seconds as far as the load is concerned."""

    user: str
    spec: dict[str, Any]
    units: int
    seconds: float


def rate(at: float, *, capacity: int, work: float) -> float:
    """Return how many jobs a second arrive ``at`` seconds after the start, where a job needs ``work`` unit-seconds."""
    return LOAD * capacity / work * (1 + SWING * math.cos(2 * math.pi * (at / DAY - PEAK)))


def mean_work(random: Random, *, draws: int = 4000) -> float:
    """Return the mean of units times seconds of a job."""
    return sum(job.units * job.seconds for job in (draw(random, number=0) for _ in range(draws))) / draws


def draw(random: Random, *, number: int) -> Draw:
    """Return a job of the mix; ``number`` makes its name its own."""
    team = random.choices(teams(), weights=[each.share for each in teams()])[0]
    user = random.choice(team.people)
    size = random.choices((*SIZES, 0), weights=[*(often for often, _, _ in SIZES.values()), SWEEP_PERCENT])[0]
    tasks, per_task, shape = _form(random, size)
    seconds = _seconds(random, size or 1)
    if shape == "independent" and tasks > 1:
        seconds = min(seconds, LONGEST / 8)
    spec = _spec(random, team, shape=shape, tasks=tasks, per_task=per_task, seconds=seconds)
    name = f"{random.choice(NAMES[team.name])}-{number:04}"
    metadata: dict[str, Any] = {"name": name, "team": team.name, "labels": {"demo": "yes"}}
    if "nightly" in team.queues and spec["priority"] == "low":
        metadata["queue"] = "nightly"
    body = {"apiVersion": "tidegate/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return Draw(user=user, spec=body, units=tasks * per_task, seconds=seconds)


def impossible() -> Draw:
    """Return a gang that is larger than the cluster, which shows how a job looks that can never run."""
    spec: dict[str, Any] = {
        "apiVersion": "tidegate/v1",
        "kind": "Job",
        "metadata": {"name": "too-large-for-this-cluster", "team": "nlp", "external_id": "demo-impossible"},
        "spec": {
            "shape": "gang",
            "tasks": 40,
            "gpus": {"count": NODE, "type": ["h100"]},
            "run": {"image": "registry.example/train:1"},
            "time_limit": "2h",
        },
    }
    return Draw(user="bela", spec=spec, units=0, seconds=0.0)


def failing() -> Draw:
    """Return a small job that fails after a few seconds, so that the first minute shows how that looks."""
    spec: dict[str, Any] = {
        "apiVersion": "tidegate/v1",
        "kind": "Job",
        "metadata": {"name": "forgot-the-config", "team": "search", "external_id": "demo-failing"},
        "spec": {
            "shape": "independent",
            "tasks": 1,
            "gpus": {"count": 1, "type": ["l40s"]},
            "run": {"image": "registry.example/train:1"},
            "time_limit": "10m",
            "annotations": {"tidegate.test/run-for": "5s", "tidegate.test/exit-code": "2"},
        },
    }
    return Draw(user="finn", spec=spec, units=1, seconds=5.0)


def _form(random: Random, size: int) -> tuple[int, int, str]:
    if size == 0:
        return random.choice(SWEEP_TASKS), 1, "independent"
    if size >= NODE and random.random() * 100 < ELASTIC_PERCENT:
        return size // WORKER, WORKER, "elastic"
    if size > NODE:
        return size // NODE, NODE, "gang"
    return 1, size, "independent"


def _seconds(random: Random, size: int) -> float:
    _, mean, deviation = SIZES[size]
    return min(max(random.lognormvariate(mean, deviation) / SPEED, SHORTEST), LONGEST)


def _spec(random: Random, team: Party, *, shape: str, tasks: int, per_task: int, seconds: float) -> dict[str, Any]:
    kinds = ["l40s", "h100"] if tasks * per_task <= NODE // 2 and random.random() * 100 < L40S_PERCENT else ["h100"]
    if "l40s" not in team.quotas:
        kinds = ["h100"]
    annotations = {"tidegate.test/run-for": f"{seconds:.1f}s", **_fate(random)}
    priority = random.choices(("low", "normal", "high", "interactive"), weights=(15, 70, 12, 3))[0]
    if priority == "interactive" and (tasks * per_task > 1 or seconds > LONGEST / 4 or not owns(team, kinds)):
        priority = "normal"
    return {
        "shape": shape,
        "tasks": {"min": tasks, "max": 2 * tasks} if shape == "elastic" else tasks,
        "gpus": {"count": per_task, "type": kinds},
        "run": {"image": f"registry.example/{team.name}:1", "command": ["python", "train.py"]},
        "time_limit": f"{max(5, math.ceil(seconds * random.uniform(1.2, 3) / 300) * 5)}m",
        "priority": priority,
        "borrow": priority != "interactive",
        "retries": random.choice((0, 0, 1)),
        "grace": "5s",
        "annotations": annotations,
    }


def owns(team: Party, kinds: list[str]) -> bool:
    """Return whether the team has a guarantee on one of these: without, a job that does not borrow never starts."""
    return any(team.quotas[kind].guaranteed for kind in kinds)


def _fate(random: Random) -> dict[str, str]:
    point = random.random() * 100
    for percent, code in FAILING:
        if point < percent:
            return {"tidegate.test/exit-code": str(code)}
        point -= percent
    return {"tidegate.test/never-start": "ErrImagePull"} if point < NO_IMAGE_PERCENT else {}
