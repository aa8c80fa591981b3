"""Ends process groups when the supervisor is gone: `python -m stack.guard`, fed through standard input.

Each line is `+ GROUP SIGNAL` or `- GROUP`. The end of the input means that the supervisor ended, however that came
about (kill -9 too): the groups that are still listed get their signal, and after some seconds SIGKILL.
"""

import os
import signal
import sys
import time
from contextlib import suppress

PATIENCE = 5.0


def end(groups: dict[int, int], *, patience: float = PATIENCE) -> None:
    """Send each group its signal, and SIGKILL to those that are there after ``patience`` seconds."""
    for group, number in groups.items():
        send(group, number)
    deadline = time.monotonic() + patience
    while any(alive(group) for group in groups) and time.monotonic() < deadline:
        time.sleep(0.05)
    for group in groups:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> None:
    """Send a signal to a process group; one that is gone is passed over."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def alive(group: int) -> bool:
    """Return whether the group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main() -> None:
    """Listen until the supervisor ends, then end what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: dict[int, int] = {}
    for line in sys.stdin:
        sign, *numbers = line.split()
        if sign == "+":
            groups[int(numbers[0])] = int(numbers[1])
        else:
            groups.pop(int(numbers[0]), None)
    end(groups)


if __name__ == "__main__":
    main()
