"""Those who make suspended objects with kubectl and give them into a queue by a label; what they made stays theirs.

They delete what they made, suspend what runs, and start what waits, without asking.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from clusters import kinds, names, paths
from clusters.asking import MERGE, Failure, path_of
from clusters.kinds import Kind
from queues.models import Job
from queues.namespaces import namespace_of
from queues.soak.drawing import Draw, Fate
from queues.soak.ground import NOT_FOUND, Ground
from queues.states import ENDED, JobState

# What ends soon also where it runs outside the queue.
SHORT = frozenset({Fate.SUCCEEDS, Fate.FAILS})


class Makers:
    """Make objects, meddle with them, and take them away when their jobs have ended as the objects tell.

    ``gone`` are those that were deleted, ``started`` those that were let run by hand.
    """

    def __init__(self, ground: Ground, random: Random) -> None:
        """Make nothing yet."""
        self.ground, self.random = ground, random
        self.made: dict[str, Draw] = {}
        self.gone: set[str] = set()
        self.started: set[str] = set()
        self.done: Counter[str] = Counter()

    def make(self, draw: Draw) -> None:
        """Make an object in the namespace of its team."""
        self.ground.cluster.api.ask("create", _collection(draw), body=draw.spec)
        self.made[draw.name] = draw
        self.done["made"] += 1

    def known(self) -> dict[str, str]:
        """Return the ids of the jobs that their objects have become, by name."""
        rows = Job.objects.filter(name__in=self.made, object_uid__isnull=False).order_by("id")
        return {name: str(uid) for name, uid in rows.values_list("name", "uid")}

    def unknown(self) -> list[str]:
        """Return what is no job yet."""
        return sorted(self.made.keys() - set(Job.objects.filter(name__in=self.made).values_list("name", flat=True)))

    def change_mind(self) -> None:
        """Delete an object that is a job, suspend it or start it, whatever has become of it."""
        names_there = sorted(self.known().keys() - self.gone - self.started)
        if not names_there:
            return
        name = self.random.choice(names_there)
        verb = self.random.choice(("deleted", "suspended", "suspended", "started"))
        if verb == "deleted":
            self.gone.add(name)
            self.ground.delete(_address(self.made[name]))
        elif verb == "suspended":
            self._suspend(name, wanted=True)
        elif self.made[name].fate in SHORT:
            self.started.add(name)
            self._suspend(name, wanted=False)
        else:
            return
        self.done[verb] += 1

    def _suspend(self, name: str, *, wanted: bool) -> None:
        draw = self.made[name]
        patch: dict[str, Any] = {}
        paths.put(patch, _kind(draw).suspend, value=wanted)
        self.ground.cluster.api.ask("patch", _address(draw), body=patch, media=MERGE)

    def collect(self) -> Iterator[str]:
        """Take away each object whose job has ended as the object tells; yield what is wrong with the others."""
        states = dict(Job.objects.filter(name__in=self.made, state__in=sorted(ENDED)).values_list("name", "state"))
        for name, state in sorted(states.items()):
            draw = self.made[name]
            wrong = _wrong(draw, JobState(state), self._found(draw), gone=name in self.gone)
            if wrong and name not in self.started:
                yield wrong
                continue
            self.ground.delete(_address(draw))
            del self.made[name]

    def _found(self, draw: Draw) -> dict[str, Any] | None:
        try:
            return self.ground.cluster.api.ask("get", _address(draw))
        except Failure as failure:
            if failure.status != NOT_FOUND:
                raise
            return None


def _wrong(draw: Draw, state: JobState, found: Mapping[str, Any] | None, *, gone: bool) -> str | None:
    """Return in what an object disagrees with the end of its job."""
    what = f"{_kind(draw).name} {draw.name}"
    if found is None:
        return None if gone else f"{what}: somebody deleted it, and not its owner"
    kind = _kind(draw)
    if names.LABEL_WAVE in (found["metadata"].get("labels") or {}):
        return f"{what}: still a wave's although its job has {state}"
    over = kinds.has_succeeded(kind, found) or kinds.has_failed(kind, found)
    if state is JobState.SUCCEEDED and not kinds.has_succeeded(kind, found):
        return f"{what}: its job has succeeded and it has not"
    if not over and found["spec"].get("suspend") is not True:
        return f"{what}: runs although its job has {state}"
    return None


def _kind(draw: Draw) -> Kind:
    found = kinds.kind_of(draw.spec)
    if found is None:
        raise ValueError(f"{draw.name} is of no kind that is known")
    return found


def _collection(draw: Draw) -> str:
    kind = _kind(draw)
    return path_of(f"/apis/{kind.api}", namespace_of(draw.team), kind.plural)


def _address(draw: Draw) -> str:
    return f"{_collection(draw)}/{draw.name}"
