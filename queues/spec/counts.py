"""Reading how many tasks a group has: a number, or of an elastic job ``{min: 2, max: 8}``."""

from queues.admission.world import JobShape
from queues.spec.fields import Section, kind, show
from queues.spec.forms import MOST_TASKS

SAYS = "tasks of an elastic job is a mapping like {min: 2, max: 8}"
LATER = {"desired": "desired is not known: an elastic job grows to max wherever others leave room"}


def counts(section: Section, shape: JobShape) -> tuple[int, int | None]:
    """Return how many tasks start together and how many there may be at most; None where that is no range."""
    if not isinstance(section.data.get("tasks"), dict):
        return section.whole("tasks", 1, least=1, most=MOST_TASKS), None
    bounds = section.section("tasks")
    least = bounds.whole("min", 1, least=1, most=MOST_TASKS)
    most = bounds.whole("max", None, least=1, most=MOST_TASKS)
    sound = bounds.has("max") and all(_is_count(bounds.data[key]) for key in bounds.data.keys() & {"min", "max"})
    bounds.close(LATER)
    if shape is not JobShape.ELASTIC:
        detail = f"tasks with min and max are for shape: elastic; a job of shape {shape.value} says a whole number"
        section.wrong("tasks", "needs_elastic", detail, given=section.data["tasks"])
    elif sound and most < least:
        detail = f"max is at least min, which is {least}; not {show(most)}"
        bounds.wrong("max", "out_of_range", detail, given=most, allowed=(least, MOST_TASKS))
    return least, max(least, most)


def needs_range(section: Section, *, grouped: bool) -> None:
    """Note that no group of an elastic job says from how many to how many tasks it has."""
    given = section.data.get("tasks", 1)
    detail = f"{SAYS}, not {kind(given)}"
    if grouped:
        detail = "in an elastic job at least one group has tasks like {min: 2, max: 8}"
    section.wrong("groups" if grouped else "tasks", "needs_range", detail, given=None if grouped else given)


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MOST_TASKS
