"""Jobs that wait, found in the snapshot."""

from queues.admission.board import Board
from queues.admission.lineup import Lineup
from queues.admission.roster import Roster
from tests.admission.site import Site


def test_a_job_is_found_wherever_it_stands_in_its_users_line_and_only_there() -> None:
    site = Site()
    site.node(4)
    team = site.team(4)
    jobs = [site.waits(team, user=user) for user in (1, 2, 2, 2)]
    (job_class,) = site.classes
    roster = Roster(Board(site.world()), site.heads(), Lineup())

    def found(user: int, job: int) -> int | None:
        waiting = roster.waiting(job_class, user, job)
        return None if waiting is None else waiting.id

    assert [found(user, job) for user, job in zip((1, 2, 2, 2), jobs, strict=True)] == jobs
    assert [found(1, jobs[1]), found(2, jobs[0]), found(3, jobs[0])] == [None, None, None]
