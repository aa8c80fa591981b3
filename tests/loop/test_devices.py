"""Jobs whose GPUs are devices of a class, walked on the emulator."""

from tests.loop.dra import refused, walk
from tests.loop.stage import Stage


def test_jobs_claim_devices_one_after_the_other_and_leave_no_claim_behind(stage: Stage) -> None:
    walk(stage)


def test_a_gang_whose_claims_a_quota_of_others_refuses_leaves_whole_and_waits(stage: Stage) -> None:
    refused(stage)
