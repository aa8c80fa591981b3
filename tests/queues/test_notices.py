from tenants import services
from tests.queues.lab import NOW, Lab


def codes(lab: Lab, **quota: int | None) -> list[str]:
    edit = services.QuotaEdit(team="nlp", flavor="h100", **quota)  # type: ignore[arg-type]
    return [each.code for each in services.set_quotas(by=lab.root, now=NOW, edits=[edit]).notices]


def test_a_cut_below_use_is_accepted_with_a_warning(lab: Lab) -> None:
    job = lab.submit()
    lab.start(job)
    used = job.units

    assert codes(lab, guaranteed=used) == []
    assert codes(lab, guaranteed=used - 1) == ["cut_below_use"]
    assert codes(lab, guaranteed=used - 1, borrow_limit=0) == ["cut_below_use"]
    assert codes(lab, guaranteed=used, borrow_limit=0) == []


def test_aging_that_cannot_lift_a_job_into_the_next_class_is_a_warning(lab: Lab) -> None:
    def edit(cap: int) -> list[str]:
        _, notices = services.edit_installation(by=lab.root, now=NOW, changes={"aging_cap": cap})
        return [each.code for each in notices]

    assert edit(0) == ["may_wait_for_ever"]
    assert edit(1) == []
