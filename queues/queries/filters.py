"""Which jobs a list shows: the same parameters for API, pages, their URL and CSV."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from queues.models import Job, TaskGroup
from queues.states import ACTIVE, ENDED, JobState
from tenants.errors import FieldError, Unreadable
from tenants.models import Flavor
from tenants.permissions import Actor

MOST_LABELS = 8
MOST_WORDS = 200
STATE_GROUPS = {"active": ACTIVE, "ended": ENDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What must hold of a listed job; an empty field asks for nothing. ``owner`` is a login or ``me``."""

    states: tuple[JobState, ...] = ()
    teams: tuple[str, ...] = ()
    owner: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    gpu_types: tuple[str, ...] = ()
    queue: str = ""
    text: str = ""
    external_id: str = ""
    created_from: datetime | None = None
    created_before: datetime | None = None

    @classmethod
    def read(cls, params: QueryDict) -> "JobFilter":
        """Read URL parameters; unknown states, label forms and times are Unreadable with what is allowed."""
        errors: list[FieldError] = []
        found = cls(
            states=tuple(_states(params, errors)),
            teams=tuple(_words(params, "team")),
            owner=params.get("owner", "").strip(),
            labels=tuple(_labels(params, errors)),
            gpu_types=tuple(_words(params, "gpu_type")),
            queue=params.get("queue", "").strip(),
            text=params.get("q", "").strip()[:MOST_WORDS],
            external_id=params.get("external_id", ""),
            created_from=_time(params, "created_at__gte", errors),
            created_before=_time(params, "created_at__lt", errors),
        )
        if errors:
            raise Unreadable(errors[0].detail, code="bad_filter", fields=errors)
        return found

    def params(self) -> tuple[tuple[str, str], ...]:
        """Return the URL parameters that read back as this filter."""
        rows = [
            ("state", ",".join(self.states)),
            ("team", ",".join(self.teams)),
            ("owner", self.owner),
            *(("label", f"{key}:{value}") for key, value in self.labels),
            ("gpu_type", ",".join(self.gpu_types)),
            ("queue", self.queue),
            ("q", self.text),
            ("external_id", self.external_id),
            ("created_at__gte", self.created_from.isoformat() if self.created_from else ""),
            ("created_at__lt", self.created_before.isoformat() if self.created_before else ""),
        ]
        return tuple((key, value) for key, value in rows if value)

    def apply(self, jobs: QuerySet[Job], by: Actor) -> QuerySet[Job]:
        """Return those of the jobs of which all this holds."""
        holds = Q()
        if self.states:
            holds &= Q(state__in=self.states)
        if self.teams:
            holds &= Q(team__name__in=self.teams)
        if self.owner:
            holds &= Q(user=by.user) if self.owner == "me" else Q(user__username=self.owner)
        if self.labels:
            holds &= Q(labels__contains=dict(self.labels))
        if self.queue:
            team, _, name = self.queue.rpartition("/")
            holds &= Q(queue__name=name) & (Q(team__name=team) if team else Q())
        if self.external_id:
            holds &= Q(external_id=self.external_id)
        if self.created_from:
            holds &= Q(submitted_at__gte=self.created_from)
        if self.created_before:
            holds &= Q(submitted_at__lt=self.created_before)
        jobs = jobs.filter(holds)
        if self.gpu_types:
            wanted = list(Flavor.objects.filter(name__in=self.gpu_types).values_list("id", flat=True))
            jobs = jobs.filter(Exists(TaskGroup.objects.filter(job=OuterRef("id"), flavors__overlap=wanted)))
        for word in self.text.split():
            jobs = jobs.filter(name__icontains=word)
        return jobs


def _words(params: QueryDict, key: str) -> Iterator[str]:
    for value in params.getlist(key):
        yield from (word.strip() for word in value.split(",") if word.strip())


def _states(params: QueryDict, errors: list[FieldError]) -> Iterable[JobState]:
    found: dict[JobState, None] = {}
    for word in _words(params, "state"):
        if word in STATE_GROUPS:
            found |= dict.fromkeys(sorted(STATE_GROUPS[word]))
        elif word in set(JobState):
            found[JobState(word)] = None
        else:
            allowed = (*JobState, *STATE_GROUPS)
            detail = f"state is one of {', '.join(allowed)}; not {word!r}"
            errors.append(
                FieldError(pointer="state", code="unknown_state", detail=detail, given=word, allowed=tuple(allowed))
            )
    return found


def _labels(params: QueryDict, errors: list[FieldError]) -> Iterator[tuple[str, str]]:
    given = params.getlist("label")
    if len(given) > MOST_LABELS:
        detail = f"at most {MOST_LABELS} labels can be asked for at once, not {len(given)}"
        errors.append(FieldError(pointer="label", code="too_many", detail=detail, given=len(given)))
        return
    for text in given:
        key, colon, value = text.partition(":")
        if colon and key:
            yield key, value
        elif text:
            detail = f"label is written key:value; not {text!r}"
            errors.append(FieldError(pointer="label", code="bad_label", detail=detail, given=text))


def _time(params: QueryDict, key: str, errors: list[FieldError]) -> datetime | None:
    text = params.get(key, "").strip()
    if not text:
        return None
    try:
        # A plus sign in a URL that nobody escaped arrives as a space.
        time = parse_datetime(text.replace(" ", "+") if text.count(" ") == 1 and "T" in text else text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        detail = f"{key} is a time with a zone like 2026-11-29T12:00:00Z; not {text!r}"
        errors.append(FieldError(pointer=key, code="bad_time", detail=detail, given=text))
        return None
    return time
