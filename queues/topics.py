"""Which topics open pages listen to when jobs move."""

from collections.abc import Iterable

from queues.models import Job

# More jobs than this at once are not named one by one: their pages hear of the teams.
MOST_JOBS = 50


def topics_of(jobs: Iterable[int]) -> list[str]:
    """Return the topics of jobs (by id) and of their teams."""
    if not (ids := set(jobs)):
        return []
    rows = list(Job.objects.filter(id__in=ids).order_by("id").values_list("uid", "team__name"))
    teams = sorted({f"team:{team}" for _, team in rows})
    return teams + [f"job:{uid}" for uid, _ in rows[:MOST_JOBS]]
