import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.errors import Invalid
from tenants.sums import Capacity, check_lend, check_sum

GUARANTEES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50), max_size=6)


def check(
    before: dict[str, int],
    after: dict[str, int],
    *,
    installed: int,
    usable: int | None = None,
    overcommit: bool = False,
) -> list[str]:
    capacity = Capacity(
        flavor="h100", installed=installed, usable=installed if usable is None else usable, overcommit=overcommit
    )
    return [each.code for each in check_sum(capacity=capacity, before=before, after=after, pointers={})]


@given(before=GUARANTEES, after=GUARANTEES, installed=st.integers(0, 200))
def test_a_sum_is_refused_just_when_it_grows_above_what_is_installed(
    before: dict[str, int], after: dict[str, int], installed: int
) -> None:
    refused = sum(after.values()) > installed and sum(after.values()) > sum(before.values())

    if refused:
        with pytest.raises(Invalid) as error:
            check(before, after, installed=installed)
        assert error.value.code == "over_installed"
        assert all(each.allowed[0] == 0 and each.given > each.allowed[1] for each in error.value.fields)  # type: ignore[operator]
    else:
        check(before, after, installed=installed)


@given(before=GUARANTEES, after=GUARANTEES, installed=st.integers(0, 200))
def test_overcommit_accepts_every_sum(before: dict[str, int], after: dict[str, int], installed: int) -> None:
    notices = check(before, after, installed=installed, overcommit=True)

    assert (notices == ["over_installed"]) == (sum(after.values()) > installed)


@given(before=GUARANTEES, growing=st.sampled_from("abcdef"), more=st.integers(1, 50), installed=st.integers(0, 200))
def test_the_most_that_is_allowed_is_allowed(before: dict[str, int], growing: str, more: int, installed: int) -> None:
    after = before | {growing: before.get(growing, 0) + more}

    try:
        check(before, after, installed=installed)
    except Invalid as error:
        most = int(error.fields[0].allowed[1])  # type: ignore[call-overload]
        check(before, before | {growing: max(most, before.get(growing, 0))}, installed=installed)


def test_the_refusal_says_each_teams_number() -> None:
    with pytest.raises(Invalid, match=r"h100: 70 would be guaranteed \(a 40, b 30\), 64 are installed: 6 too many"):
        check({"a": 40, "b": 20}, {"a": 40, "b": 30}, installed=64)


def test_above_usable_is_a_warning() -> None:
    assert check({}, {"a": 60}, installed=64, usable=56) == ["over_usable"]


def test_a_sum_that_a_lost_node_made_too_high_may_fall_step_by_step() -> None:
    assert check({"a": 60}, {"a": 58}, installed=56) == ["over_installed"]


@pytest.mark.parametrize("lend", [None, 0, 8])
def test_lending_up_to_the_guarantee_is_allowed(lend: int | None) -> None:
    check_lend(guaranteed=8, lend_limit=lend, pointer="")


def test_lending_more_than_the_guarantee_is_refused_at_its_field() -> None:
    with pytest.raises(Invalid) as error:
        check_lend(guaranteed=8, lend_limit=9, pointer="/2")

    assert error.value.fields[0].pointer == "/2/lend_limit"
    assert error.value.fields[0].allowed == (0, 8, None)
