"""Reading how close together tasks want to be: ``{required: rack}``, ``{preferred: zone}``, ``{spread: node}``."""

from collections.abc import Sequence

from queues.admission.world import Near
from queues.spec.fields import Section, nearest, show
from queues.spec.values import SpecGroup, SpecTopology

NODE = "node"
SAYS = "one of required, preferred and spread with a level, like {required: rack}"
MOST_SKEW = 1000


def topology(section: Section, levels: Sequence[str]) -> SpecTopology | None:
    """Read the wish of a job or a group; None where it has none. The innermost level is always ``node``."""
    if not section.has("topology"):
        section.take("topology", None)
        return None
    wish = section.section("topology")
    said = [near for near in Near if wish.has(near.value)]
    for near in Near:
        wish.take(near.value, None)
    skew = wish.whole("max_skew", None, least=1, most=MOST_SKEW) if wish.has("max_skew") else None
    wish.close()
    if len(said) != 1:
        section.wrong("topology", "bad_form", f"topology is {SAYS}", given=section.data["topology"])
        return None
    near, names = said[0], [*levels, NODE]
    level = wish.text(near.value, most=63)
    if level and level not in names:
        close = nearest(level, names)
        hint = f"; did you mean {close}?" if close else ""
        detail = f"{near.value} names a level, {', '.join(names)}; not {show(level)}{hint}"
        wish.wrong(near.value, "unknown_level", detail, given=level, allowed=names)
    if level not in names:
        return None
    if skew is not None and near is not Near.SPREAD:
        wish.wrong("max_skew", "not_allowed", "max_skew is for spread", given=skew)
    return SpecTopology(near=near, level=level, place=names.index(level), max_skew=skew)


def refuse_alone(body: Section, group: SpecGroup, *, grouped: bool) -> None:
    """Refuse what binds tasks that start together where several start each alone; one task is in one domain anyway."""
    wish = group.topology
    if wish is None or group.tasks == 1 or (wish.near is Near.SPREAD and wish.max_skew is None):
        return
    key = "max_skew" if wish.near is Near.SPREAD else wish.near.value
    detail = f"{key} binds tasks that start together: say shape: gang or elastic; each task of this job starts alone"
    given = wish.max_skew if wish.near is Near.SPREAD else wish.level
    body.wrong(
        body.at("groups", 0, "topology", key) if grouped else body.at("topology", key),
        "needs_gang",
        detail,
        given=given,
    )
