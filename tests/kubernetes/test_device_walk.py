"""Jobs whose GPUs are devices of a class, walked on a real control plane, whose scheduler gives the devices."""

import pytest

from tests.loop.dra import walk
from tests.loop.stage import Stage

pytestmark = pytest.mark.kubernetes


def test_jobs_claim_devices_one_after_the_other_and_leave_no_claim_behind(real: Stage) -> None:
    walk(real, seconds=120)
