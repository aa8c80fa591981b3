"""Whether a list is older than what was seen before: an API server whose cache stands still shows the past as now."""

import time
from collections.abc import Callable, Mapping

from clusters.port import Unreachable

# After so long an older list is believed: the cluster was restored from a back-up, and its versions begin anew.
BELIEVED_AFTER_SECONDS = 120.0


class Age:
    """The newest resource version heard of each kind; Kubernetes counts them up, as numbers that may be compared."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet."""
        self._clock = clock
        self._newest: dict[str, int] = {}
        self._behind_since: float | None = None

    def heard(self, position: Mapping[str, str]) -> None:
        """Keep a position that a watch has reached."""
        for kind, version in position.items():
            if version.isdecimal():
                self._newest[kind] = max(self._newest.get(kind, 0), int(version))

    def mark(self) -> Mapping[str, int]:
        """Return what a list that begins now must show at least."""
        return dict(self._newest)

    def check(self, position: Mapping[str, str], *, since: Mapping[str, int]) -> None:
        """Keep a list's position; raise Unreachable where something newer was heard before the list began."""
        late = [kind for kind, version in position.items() if version.isdecimal() and int(version) < since.get(kind, 0)]
        if late and not self._is_believed():
            raise Unreachable(f"the API server lists {', '.join(sorted(late))} as they were, not as they are")
        if late:
            self._newest.clear()
        self._behind_since = None
        self.heard(position)

    def _is_believed(self) -> bool:
        now = self._clock()
        if self._behind_since is None:
            self._behind_since = now
        return now - self._behind_since >= BELIEVED_AFTER_SECONDS
