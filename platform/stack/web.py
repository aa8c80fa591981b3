"""Uvicorn over a socket that the supervisor holds: `python -m stack.web FD LEVEL`.

The address is sure before anything else starts, and while web restarts browsers wait instead of being refused.
"""

import socket
import sys

import uvicorn

GRACE_SECONDS = 2


def main(number: int, level: str) -> None:
    """Serve until told to stop; open streams get two seconds."""
    config = uvicorn.Config(
        "config.asgi:application",
        log_level=level,
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=number)])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
