"""What comes back when something that holds units has ended, remembered from one decision to the next."""

from dataclasses import dataclass, field

from queues.admission.nodes import Room
from queues.admission.world import Attempt, Milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What comes back at a time: room on nodes, units of a team's quota and a user's limit.

    ``frees``: until then something runs on the nodes. ``limited`` are the teams in which the user's units count,
    ``elsewhere`` units on nodes that are not usable.
    """

    at: Milliseconds
    rooms: dict[int, Room] = field(default_factory=dict)
    frees: bool = False
    place: int = 0
    limited: tuple[int, ...] = ()
    user: int = 0
    units: dict[int, int] = field(default_factory=dict)
    elsewhere: dict[int, int] = field(default_factory=dict)
    firm: bool = False


class Ends:
    """The sure ends of attempts, which are the same as long as an attempt is."""

    def __init__(self) -> None:
        """Begin with none."""
        self._rows: dict[int, tuple[Attempt, End]] = {}

    def of(self, attempt: Attempt) -> End | None:
        """Return the end of this very attempt, where it is known."""
        row = self._rows.get(attempt.id)
        return row[1] if row is not None and row[0] is attempt else None

    def keep(self, rows: list[tuple[Attempt, End]]) -> None:
        """Remember these, and no others."""
        self._rows = {row[0].id: row for row in rows}
