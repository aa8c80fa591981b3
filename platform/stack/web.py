"""Uvicorn over a socket that the supervisor holds: `python -m stack.web FD LEVEL`.

The address is sure before anything else starts, and while web restarts browsers wait instead of being refused.
"""

import socket
import sys

import uvicorn

GRACE_SECONDS = 2
BACKLOG = 1024


class Server(uvicorn.Server):
    """Takes one connection at a time, so that the processes on one socket share them evenly."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then let connections queue again: asyncio takes as many in a row as it lets queue."""
        await super().startup(sockets=sockets)
        for each in sockets or ():
            each.listen(BACKLOG)


def main(number: int, level: str) -> None:
    """Serve until told to stop; open streams get two seconds."""
    config = uvicorn.Config(
        "config.asgi:application",
        log_level=level,
        access_log=False,
        backlog=1,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    Server(config).run(sockets=[socket.socket(fileno=number)])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
