"""Submits jobs of the pattern through the REST API; waits where enough wait already, or where nobody answers."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from queues.demo.cast import KINDS, WATCHER
from queues.demo.pattern import Draw, draw, failing, impossible, mean_work, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

ENOUGH_WAITING = 60
TICK, LOOK_EVERY, TELL_EVERY = 1.0, 5.0, 60.0
LONGEST_PAUSE = 30.0
CANCEL_ONE_IN = 40
TIMEOUT = 15.0
FIRST_JOBS, FIRST_UNITS = 50, 1.3  # what is there at once, so that the first page shows a busy cluster
FIRST_WORDS = 5  # refusals that are shown; they mean that demo and product no longer fit together
FAIR = 429  # "too many requests", the one refusal that passes


class Failed(Exception):
    """The API answered with an error, or did not answer (``status`` 0)."""

    def __init__(self, status: int, text: str) -> None:
        """Keep the HTTP status."""
        super().__init__(f"{status}: {text}" if status else text)
        self.status = status


class Api:
    """The few calls that the feeder needs, each made as one of the demo's people."""

    def __init__(self, address: str, tokens: Mapping[str, str]) -> None:
        """Remember where and with which bearer tokens."""
        self.address, self.tokens = address.rstrip("/"), tokens

    def submit(self, job: Draw, *, attach: bool = False) -> dict[str, Any]:
        """Submit a job and return the API's answer."""
        return self.call(job.user, "POST", "/api/v1/jobs" + ("?if_exists=attach" if attach else ""), job.spec)

    def cancel(self, user: str, job: str) -> None:
        """Cancel a job."""
        self.call(user, "POST", f"/api/v1/jobs/{job}:cancel", {})

    def waiting(self) -> int:
        """Return how many jobs of all teams wait."""
        answer = self.call(WATCHER, "GET", "/api/v1/jobs:count?group_by=state")
        return int(answer["counts"].get("queued", 0))

    def call(self, user: str, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Make one request; raise Failed for anything but success."""
        request = urllib.request.Request(  # noqa: S310  the address that the command was given
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.tokens[user]}",
                "Content-Type": "application/json",
                "Accept": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310  as above
                told = json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise Failed(error.code, error.read(500).decode(errors="replace")) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(0, str(error)) from error
        return told if isinstance(told, dict) else {}


class Feeder:
    """Draws jobs and submits them at the pattern's pace."""

    def __init__(self, api: Api, random: Random, *, say: Callable[[str], object]) -> None:
        """Set everything to the start."""
        self.api, self.random, self.say = api, random, say
        self.capacity = sum(kind.units for kind in KINDS)
        self.number = self.refused = self.waiting = 0
        self.pause = 0.0

    def run(self, *, clock: Callable[[], float], sleep: Callable[[float], None], seconds: float | None = None) -> None:
        """Submit a first bunch, then as time goes by, for ``seconds`` (None: for ever)."""
        work = mean_work(self.random)
        start = now = clock()
        next_job = next_look = start
        next_word = start + TELL_EVERY
        first = self.first()
        while seconds is None or now - start < seconds:
            if now >= next_look or self.pause:
                self.look()
                next_look = now + LOOK_EVERY
            while first and not self.pause:
                self.submit(first.pop(0))
            while next_job <= now and not self.pause and self.waiting < ENOUGH_WAITING:
                self.submit(self.draw())
                next_job += self.random.expovariate(rate(now - start, capacity=self.capacity, work=work))
            next_job = max(next_job, now)
            if now >= next_word:
                self.say(f"{self.number} jobs submitted so far, {self.refused} refused; {self.waiting} wait")
                next_word = now + TELL_EVERY
            sleep(self.pause or TICK)
            now = clock()

    def first(self) -> list[Draw]:
        """Return what is submitted at once: a job that can never run, one that fails, and a full cluster."""
        jobs: list[Draw] = []
        units = 0
        while units < FIRST_UNITS * self.capacity and len(jobs) < FIRST_JOBS:
            jobs.append(self.draw())
            units += jobs[-1].units
        return [impossible(), failing(), *jobs]

    def draw(self) -> Draw:
        """Return the next job of the mix."""
        self.number += 1
        return draw(self.random, number=self.number)

    def look(self) -> None:
        """See how many jobs wait."""
        try:
            self.waiting = self.api.waiting()
        except Failed as failure:
            self._failed(failure)
        else:
            self.pause = 0.0

    def submit(self, job: Draw) -> None:
        """Submit one job; now and then its owner changes their mind."""
        try:
            answer = self.api.submit(job, attach="external_id" in job.spec["metadata"])
            self.waiting += 1
            if self.random.randrange(CANCEL_ONE_IN) == 0:
                self.api.cancel(job.user, str(answer["id"]))
        except Failed as failure:
            self._failed(failure)

    def _failed(self, failure: Failed) -> None:
        if 400 <= failure.status < 500 and failure.status != FAIR:  # noqa: PLR2004  the caller's faults
            self.refused += 1
            if self.refused <= FIRST_WORDS:
                self.say(f"refused: {failure}")
            return
        self.pause = min(max(self.pause * 2, TICK), LONGEST_PAUSE)
        self.say(f"Tidegate does not take jobs now ({failure}); again in {self.pause:.0f} s")
