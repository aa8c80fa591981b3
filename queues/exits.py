"""What an exit code or a reason of Kubernetes most likely means, in one sentence for people. Pure."""

import signal
from collections.abc import Mapping

SIGNALS_FROM = 128

BY_REASON: Mapping[str, str] = {
    "OOMKilled": "Out of memory: the container used more than its memory limit.",
    "ContainerCannotRun": "The command could not be started in its image.",
    "StartError": "The command could not be started in its image.",
    "RunContainerError": "The command could not be started in its image.",
    "CreateContainerConfigError": "A secret or setting that the container names is not there.",
    "DeadlineExceeded": "Its time was up.",
    "TIMED_OUT": "Its time limit was reached.",
    "IMAGE_PULL": "The image cannot be pulled: is its name right, and may the cluster read it?",
    "NODE_LOST": "Its node went away or stopped answering: not the job's fault.",
    "UNSCHEDULABLE": "Kubernetes finds no node for it at the moment.",
}
BY_CODE: Mapping[int, str] = {
    126: "The command is there but may not be executed.",
    127: "The command is not there: is it in the image, and spelt right?",
}
BY_SIGNAL: Mapping[int, str] = {
    signal.SIGKILL: "Killed (SIGKILL): out of memory, or it did not stop in time.",
    signal.SIGTERM: "Told to stop (SIGTERM): often because another task of the job had failed.",
    signal.SIGSEGV: "It crashed on a wrong memory access (SIGSEGV).",
    signal.SIGABRT: "It gave up by itself (SIGABRT), as libraries do on an internal error.",
    signal.SIGBUS: "It crashed (SIGBUS): often too little shared memory (resources.shm).",
}


# We ended it, and say for whom beside it.
OURS = frozenset({"EVICTED", "SHRUNK"})


def meaning(exit_code: int | None, reason: str) -> str:
    """Return what is known of how a task ended; "" where a code says nothing in particular."""
    if reason in BY_REASON:
        return BY_REASON[reason]
    if not exit_code or reason in OURS:
        return ""
    if exit_code in BY_CODE:
        return BY_CODE[exit_code]
    number = exit_code - SIGNALS_FROM
    if number in BY_SIGNAL:
        return BY_SIGNAL[number]
    known = {each.value: each.name for each in signal.Signals}
    return f"Ended by {known[number]}." if number in known else ""
