"""The demo's departments, teams, people, GPU types, quotas and queues."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A GPU type: the label value by which its nodes are known, and how many units the emulated cluster has."""

    name: str
    title: str
    product: str
    units: int
    value_milli: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A quota: what a team owns, may borrow (None: no limit, 0: nothing) and lends (None: all)."""

    guaranteed: int = 0
    borrow: int | None = None
    lend: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """A team; ``share`` is its part of the demo's demand in percent, 0 for a department."""

    name: str
    title: str
    above: str | None = None
    share: int = 0
    weight_milli: int = 1000
    per_user_limit: int | None = None
    quotas: dict[str, Limits] = field(default_factory=dict)
    lead: str = ""
    members: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    @property
    def people(self) -> tuple[str, ...]:
        """Return who submits jobs."""
        return (self.lead, *self.members) if self.lead else self.members


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One account that a newcomer may use, and who that is."""

    name: str
    who: str
    role: str = ""


KINDS = (
    Kind(name="h100", title="NVIDIA H100 80 GB", product="NVIDIA-H100-80GB-HBM3", units=128, value_milli=4000),
    Kind(name="l40s", title="NVIDIA L40S 48 GB", product="NVIDIA-L40S", units=32),
)

# 112 of 128 H100 and 28 of 32 L40S are promised; the rest is unassigned and lent to whoever asks.
PARTIES = (
    Party(name="research", title="Research", quotas={"h100": Limits(guaranteed=8)}),
    Party(name="products", title="Products"),
    Party(name="science", title="Science"),
    Party(
        name="nlp",
        title="Language models",
        above="research",
        share=34,
        quotas={"h100": Limits(guaranteed=32, borrow=48), "l40s": Limits(guaranteed=4, borrow=8)},
        lead="ada",
        members=("bela", "chen"),
        viewers=("vera",),
        queues=("nightly",),
    ),
    Party(
        name="vision",
        title="Computer vision",
        above="research",
        share=22,
        per_user_limit=40,
        quotas={"h100": Limits(guaranteed=24, lend=16), "l40s": Limits(guaranteed=4)},
        lead="dana",
        members=("emil",),
    ),
    Party(
        name="search",
        title="Search and ranking",
        above="products",
        share=14,
        quotas={"h100": Limits(guaranteed=16, borrow=16), "l40s": Limits(guaranteed=12, borrow=0)},
        lead="finn",
        members=("gita",),
    ),
    Party(
        name="speech",
        title="Speech",
        above="products",
        share=12,
        quotas={"h100": Limits(guaranteed=16, borrow=0), "l40s": Limits(guaranteed=8, lend=0)},
        lead="hugo",
        members=("ines",),
    ),
    Party(
        name="genomics",
        title="Genomics",
        above="science",
        share=12,
        weight_milli=2000,
        quotas={"h100": Limits(guaranteed=16), "l40s": Limits()},
        lead="jana",
        members=("kofi",),
    ),
    Party(
        name="robotics",
        title="Robotics",
        above="science",
        share=6,
        quotas={"h100": Limits(borrow=24), "l40s": Limits()},
        lead="lena",
        members=("milo",),
    ),
)

LOGINS = (
    Login(name="admin", who="platform admin: sees and changes everything", role="admin"),
    Login(name="audit", who="auditor: sees everything, changes nothing", role="auditor"),
    Login(name="ada", who="lead of team nlp"),
    Login(name="bela", who="member of team nlp"),
    Login(name="kofi", who="member of team genomics"),
    Login(name="vera", who="viewer of team nlp"),
)

WATCHER = "audit"  # whose token counts what waits in all teams

# Name, value, preemptible: interactive jobs are short and are never recalled.
CLASSES = (("low", -1, True), ("normal", 0, True), ("high", 1, True), ("interactive", 2, False))


def accounts() -> tuple[str, ...]:
    """Return every account's name, each once."""
    names = [login.name for login in LOGINS]
    for party in PARTIES:
        names += [*party.people, *party.viewers]
    return tuple(dict.fromkeys(names))


def teams() -> tuple[Party, ...]:
    """Return the teams that have jobs."""
    return tuple(party for party in PARTIES if party.share)
