"""Fair shares, by hand: SEMANTICS 3."""

from queues.admission.shares import Share


def test_nobody_is_below_one_who_borrows_nothing() -> None:
    nothing, nothing_of_more, nothing_of_none = Share(0, 1), Share(0, 2), Share(0, 0)

    assert not nothing.below(nothing_of_more)
    assert not Share(1, 1).below(nothing_of_none)
    assert nothing.below(Share(1, 10**9))


def test_ranks_sort_as_shares_do() -> None:
    # Of the weights 1, 2 and 3 the scale is 6: nothing, 1/3 = 2/6, 1/2 = 3/6, 2/2 = 6/6, and last a weight of zero.
    shares = [Share(0, 3), Share(1, 3), Share(1, 2), Share(2, 2), Share(1, 0)]

    assert [share.rank(6) for share in shares] == [(0, 0), (0, 2), (0, 3), (0, 6), (1, 0)]


def test_ranks_of_large_numbers_are_exact() -> None:
    assert Share(10**20, 2).rank(6) < Share(10**20 + 1, 2).rank(6)
