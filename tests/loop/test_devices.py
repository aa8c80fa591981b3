"""Jobs whose GPUs are devices of a class, walked on the emulator."""

from tests.loop.dra import walk
from tests.loop.stage import Stage


def test_jobs_claim_devices_one_after_the_other_and_leave_no_claim_behind(stage: Stage) -> None:
    walk(stage)
