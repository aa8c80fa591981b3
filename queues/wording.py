"""What each reason says to people: one sentence a code, with its numbers. Pages, API and tests read this table."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from queues.admission.reasons import Code

Numbers = Mapping[str, int | str]

NOT_DECIDED = "NOT_DECIDED"
# Where units that others use outside would help, if they were free.
LACKS_ROOM = frozenset({Code.NO_FREE_CAPACITY, Code.FRAGMENTED, Code.NO_DOMAIN_FITS})


class _Told(dict[str, int | str]):
    """Numbers of a reason; one that is not told is shown as such."""

    def __missing__(self, key: str) -> str:
        return "?"

    def has(self, *keys: str) -> bool:
        """Whether all of these are told."""
        return all(key in self for key in keys)

    @property
    def ask(self) -> str:
        """Return what is asked for: ``32 h100``."""
        kind = self["flavor"] if "flavor" in self else "GPU" if self["needs"] == 1 else "GPUs"
        return f"{self['needs']} {kind}"


def sentence(code: str, numbers: Numbers) -> str:
    """Return why a job waits, in one sentence."""
    say = SENTENCES.get(code)
    text = say(_Told(numbers)) if say else f"Waiting: {code.replace('_', ' ').lower()}."
    if "outside" in numbers and code in LACKS_ROOM:
        text += f" Pods of others, outside Tidegate, use {numbers['outside']}."
    if "endless" not in numbers:
        return text
    few = numbers["endless"] == 1
    many = "1 job without a time limit stands" if few else f"{numbers['endless']} jobs without a time limit stand"
    return f"{text} It has kept GPUs idle for too long, and {many} in its way: others get their turn."


def _exceeds_max(told: _Told) -> str:
    if "flavor" not in told:
        return f"Can never start: it needs {told.ask} and a user may have at most {told['limit']}."
    return f"Can never start: it needs {told.ask} and its team can have at most {told['limit']}."


def _exceeds_node(told: _Told) -> str:
    needs, largest = told["needs"], told["largest_node"]
    if isinstance(needs, int) and isinstance(largest, int) and needs <= largest:
        return f"Can never start: a task's CPU or memory is more than any {told['flavor']} node has."
    return f"Can never start: a task needs {told.ask} on one node and the largest has {largest}."


def _no_matching_node(told: _Told) -> str:
    if told.get("labels"):
        return f"Can never start: no {told['flavor']} node has the labels {told['labels']}."
    return f"Can never start: there is no {told['flavor']} node."


def _queue_paused(told: _Told) -> str:
    return f"Queue {told['queue']} is paused." if "queue" in told else f"Team {told['team']} is paused."


def _team_limit(told: _Told) -> str:
    if "team" in told:
        return f"Needs {told.ask}; {told['team']} uses {told['used']} of the {told['limit']} that it may have."
    return f"Needs {told.ask} inside its team's guarantee; {told['used']} of {told['limit']} are in use."


def _lend_limit(told: _Told) -> str:
    if told.has("used", "limit"):
        return f"Needs {told.ask}; its team uses {told['used']} and others lend it no more than {told['limit']} in all."
    return f"Needs {told.ask}; {told['free']} are free, but those to whom they belong do not lend enough of them."


def _no_free_capacity(told: _Told) -> str:
    free = told["free"]
    return f"Needs {told.ask}; {'none is' if free == 0 else f'{free} are'} free."


def _holds(told: _Told) -> str:
    at = told.get("at")
    if not isinstance(at, int):
        return f"Holds its place: what frees there is kept until it has {told.ask}; endless jobs are in its way."
    start = datetime.fromtimestamp(at / 1000, tz=UTC)
    return (
        f"Holds its place: planned to start with {told.ask} at {start:%Y-%m-%d %H:%M} UTC, sooner if others end early."
    )


def _capacity_reduced(told: _Told) -> str:
    if "claim" in told:
        return f"{told.ask} are reserved for it: it starts when node {told['node']} can take work again."
    return f"Needs {told.ask}; only {told['usable']} of {told['installed']} can be used at the moment."


def _behind(told: _Told) -> str:
    if "ahead" in told:
        return f"Needs {told.ask}; what was free went to {told['ahead']}, which was before it in the order."
    return f"Needs {told.ask}; others are before it in the order."


SENTENCES: dict[str, Callable[[_Told], str]] = {
    Code.EXCEEDS_MAX: _exceeds_max,
    Code.EXCEEDS_NODE: _exceeds_node,
    Code.NO_MATCHING_NODE: _no_matching_node,
    Code.HELD: lambda _: "Held until somebody releases it.",
    Code.QUEUE_PAUSED: _queue_paused,
    Code.BACKING_OFF: lambda _: "Was recalled often: it waits longer until it borrows again.",
    Code.USER_LIMIT: lambda told: f"Needs {told.ask}; its owner uses {told['used']} of the {told['limit']} allowed.",
    Code.TEAM_LIMIT: _team_limit,
    Code.BORROW_LIMIT: lambda told: (
        f"Needs {told.ask}; department {told['team']} uses {told['used']} of the {told['limit']} that it may have."
    ),
    Code.LEND_LIMIT: _lend_limit,
    Code.CAPACITY_REDUCED: _capacity_reduced,
    Code.WAITS_TERMINATING: lambda told: (
        f"Needs {told.ask}; {told['free']} are free and {told['terminating']} are being given back."
    ),
    Code.NO_FREE_CAPACITY: _no_free_capacity,
    Code.FRAGMENTED: lambda told: (
        f"Needs {told.ask}; {told['free']} are free, but spread out: at most {told['largest_block']} on one node."
    ),
    Code.BEHIND: _behind,
    Code.TIME_LIMIT_NEEDED: lambda _: "Only a job with a time limit may borrow here.",
    Code.WAITS_VICTIMS: lambda told: (
        f"{told.ask} are reserved for it: it starts when the jobs that give way to it are gone."
    ),
    Code.WAITS_MIN_RUNTIME: lambda told: (
        f"Needs {told.ask}, and waits until the jobs that give way to it have run for their least time."
    ),
    Code.HOLDS: _holds,
    Code.NO_DOMAIN_FITS: lambda told: (
        f"Needs {told.ask} close together; {told['free']} are free, but not in one place."
    ),
    Code.WOULD_DELAY: lambda told: f"Needs {told.ask} and would fit, but would delay a job that was before it.",
    NOT_DECIDED: lambda _: "Submitted; the next cycle decides.",
    "UNSCHEDULABLE": lambda _: "Kubernetes has not placed its pods yet.",
    "IMAGE_PULL": lambda _: "Its image cannot be pulled.",
    "K8S_QUOTA": lambda _: "A quota in Kubernetes refused its pods.",
    "K8S_REJECTED": lambda _: "Kubernetes refused it as invalid.",
    "NAME_CONFLICT": lambda _: "An object of its name is there already.",
    "NODE_LOST": lambda _: "Its node was lost.",
    "EVICTED": lambda _: "Its GPUs were taken back by those to whom they belong.",
    "SHRUNK": lambda _: "Surplus tasks were given back to those who needed their GPUs.",
    "DELETED_OUTSIDE": lambda _: "Its objects were deleted by somebody else.",
    "TASK_FAILED": lambda _: "A task failed.",
    "START_FAILED": lambda _: "Its pods did not start in time.",
    "TIMED_OUT": lambda _: "It reached its time limit.",
    "CLUSTER_UNREACHABLE": lambda _: "Its cluster does not answer.",
}


RULES: dict[str, str] = {
    Code.EXCEEDS_MAX: "A job that asks for more than its limits could ever give never starts.",
    Code.EXCEEDS_NODE: "A task runs on one node and must fit there.",
    Code.NO_MATCHING_NODE: "A task runs only on a node with all the labels that it asks for.",
    Code.HELD: "A held job takes no turn.",
    Code.QUEUE_PAUSED: "A paused queue or team starts nothing.",
    Code.BACKING_OFF: "After a start that failed, or recalled often, a job pauses, longer each time.",
    Code.USER_LIMIT: "One user may have only so much at once.",
    Code.TEAM_LIMIT: "A team may use its guarantee and what its borrow limit adds.",
    Code.BORROW_LIMIT: "A department may use its guarantees and what its borrow limit adds.",
    Code.LEND_LIMIT: "Teams lend only what their lend limit lets go.",
    Code.CAPACITY_REDUCED: "Lost and cordoned nodes take no new work.",
    Code.WAITS_TERMINATING: "What a stopping job holds is free when its pods are gone.",
    Code.NO_FREE_CAPACITY: "A job starts when all that it needs at once is free.",
    Code.FRAGMENTED: "A task runs on one node: free units on several nodes do not add up.",
    Code.TIME_LIMIT_NEEDED: "The queue lets a job without a time limit run only inside the guarantee.",
    Code.WAITS_VICTIMS: "A team gets back what it is guaranteed; those who borrowed it get time to stop.",
    Code.WAITS_MIN_RUNTIME: "A job that borrows may run for its least time before it has to give way.",
    Code.HOLDS: "A job that waits long gets a place that others may use only if they end in time.",
    Code.NO_DOMAIN_FITS: "Tasks that start together stay in one cluster, and as close together as the job asks.",
    Code.WOULD_DELAY: "What is kept for a job goes to others only if they surely end before it can start.",
    Code.BEHIND: "Turns go by guarantee, then by what a team borrows already, then by priority and waiting time.",
}


def rule(code: str) -> str:
    """Return the rule behind a reason, or nothing where the reason says it all."""
    return RULES.get(code, "")


def helps(code: str, numbers: Numbers) -> tuple[str, ...]:
    """Return what would let the job start, as far as the reason alone tells."""
    told = _Told(numbers)
    match code:
        case Code.EXCEEDS_MAX:
            return (f"Ask for at most {told['limit']}.", "Ask an admin for more quota.")
        case Code.EXCEEDS_NODE:
            return (f"Ask for at most {told['largest_node']} a task and for more tasks.",)
        case Code.NO_MATCHING_NODE:
            return ("Leave out the node labels or the GPU type.",)
        case Code.HELD:
            return ("Release it.",)
        case Code.TEAM_LIMIT | Code.BORROW_LIMIT:
            return ("Wait for the team's own jobs to end, or ask an admin for more quota.",)
        case Code.USER_LIMIT:
            return ("Wait for your other jobs to end, or cancel one.",)
        case _:
            return ()


STALLED: dict[str, str] = {
    Code.TEAM_LIMIT: "when the limits of its team leave room",
    Code.USER_LIMIT: "when its owner's limit leaves room",
    Code.TIME_LIMIT_NEEDED: "when its team has idle GPUs of its own: without a time limit it may not borrow",
    Code.LEND_LIMIT: "when those who have idle GPUs lend them",
    Code.WOULD_DELAY: "when what is free is no longer kept for other jobs",
    Code.NO_FREE_CAPACITY: "when GPUs are free that nobody else needs",
}


def growth(least: int, most: int, running: int, starting: int, grows_from: datetime | None, stalled: str) -> str:
    """Return how many tasks an elastic job has, and when it gets more."""
    has = f"Runs with {running} of at most {most} tasks, minimum {least}"
    more = most - running - starting
    if running < least:
        return f"{running} of {least} tasks run; with all of them it may grow to {most}."
    has += f"; {starting} more {'starts' if starting == 1 else 'start'}" if starting else ""
    if more <= 0:
        return f"{has}."
    if grows_from is not None and not stalled:
        return f"{has}. It gave GPUs back and grows again from {grows_from:%H:%M} UTC on, where others leave room."
    return f"{has}; up to {more} more {STALLED.get(stalled, STALLED[Code.NO_FREE_CAPACITY])}."
