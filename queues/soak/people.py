"""Those who use Tidegate during a soak: they submit, cancel, hold and change their minds through the REST API.

Whatever fails is tried again: a submission by its external_id, so that a lost answer makes no second job.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from queues.soak.drawing import Draw

TIMEOUT = 20.0
PATIENCE_SECONDS = 90.0
PAUSE_SECONDS = 0.3
UNAVAILABLE = 500
# People have their minds on what they submitted lately.
RECENT = 300


@dataclass(slots=True, kw_only=True)
class People:
    """One token, many wishes; ``ids`` are the jobs that were accepted, by name, ``cancelled`` those given up."""

    address: str
    token: str
    random: Random
    ids: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)

    def submit(self, draws: Sequence[Draw]) -> None:
        """Submit jobs in one batch, again and again until it is answered."""
        if not draws:
            return
        answer = self.surely("POST", "/api/v1/jobs:batch?if_exists=attach", {"jobs": [draw.spec for draw in draws]})
        for draw, item in zip(draws, answer["items"], strict=True):
            if item["error"] is not None:
                raise RuntimeError(f"{draw.name} was refused: {item['error']}")
            self.ids[draw.name] = item["id"]
        self.done["submitted"] += len(draws)

    def change_minds(self, count: int) -> None:
        """Do something to so many jobs, whatever has become of them."""
        recent = tuple(self.ids)[-RECENT:]
        for name in self.random.sample(recent, min(count, len(recent))):
            verb = self.random.choice(("cancel", "hold", "release", "priority", "hold", "release"))
            if verb == "cancel":
                self.cancel(name)
            elif verb == "priority":
                body = {"priority": self.random.choice(("low", "normal", "high"))}
                self._try("priority", "PATCH", f"/api/v1/jobs/{self.ids[name]}", body)
            else:
                self._try(verb, "POST", f"/api/v1/jobs/{self.ids[name]}:{verb}", {})

    def cancel(self, name: str) -> None:
        """Cancel a job; whether it had ended before is seen at the end."""
        self.cancelled.add(name)
        self._try("cancel", "POST", f"/api/v1/jobs/{self.ids[name]}:cancel", {})

    def release_all(self, names: Sequence[str]) -> None:
        """Release jobs that are held."""
        for name in names:
            self._try("release", "POST", f"/api/v1/jobs/{self.ids[name]}:release", {})

    def surely(self, method: str, path: str, body: object) -> dict[str, Any]:
        """Make a request until it is answered; a refusal is an error."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            status, answer = self.call(method, path, body)
            if 0 < status < http.HTTPStatus.BAD_REQUEST:
                return answer
            if 0 < status < UNAVAILABLE or time.monotonic() > end:
                raise RuntimeError(f"{method} {path}: {status} {str(answer)[:500]}")
            self.done["tried again"] += 1
            time.sleep(PAUSE_SECONDS)

    def call(self, method: str, path: str, body: object) -> tuple[int, dict[str, Any]]:
        """Make one request; status 0 where nobody answers."""
        request = urllib.request.Request(  # noqa: S310  our own server
            self.address + path,
            method=method,
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "If-Match": "*",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, {"text": error.read(500).decode(errors="replace")}
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, {"text": str(error)}

    def _try(self, word: str, method: str, path: str, body: object) -> None:
        status, _ = self.call(method, path, body)
        said = "" if 0 < status < http.HTTPStatus.BAD_REQUEST else " refused" if 0 < status < UNAVAILABLE else " lost"
        self.done[word + said] += 1
