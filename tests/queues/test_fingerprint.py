"""Fingerprints of many values: the same for equal ones, and only what is another object is read again."""

from queues.fingerprint import Marks


class Value:
    """Says what it is, and how often it was asked."""

    def __init__(self, text: str) -> None:
        self.text, self.asked = text, 0

    def __repr__(self) -> str:
        self.asked += 1
        return self.text


def fresh(values: dict[int, Value]) -> int:
    return Marks().total(values.items())


def test_only_what_is_another_object_is_read_again() -> None:
    marks, values = Marks(), {number: Value(str(number)) for number in range(100)}
    marks.total(values.items())
    values[7] = Value("seven")
    del values[9]
    values[200] = Value("new")

    total = marks.total(values.items())

    assert {value.asked for value in values.values()} == {1}
    assert total == fresh(values)


def test_the_order_does_not_count_but_what_lies_under_which_key() -> None:
    one, two = Value("one"), Value("two")

    assert fresh({1: one, 2: two}) == fresh({2: Value("two"), 1: Value("one")})
    assert fresh({1: one, 2: two}) != fresh({1: two, 2: one})
    assert fresh({1: one}) != fresh({1: one, 2: two})


def test_what_goes_and_comes_back_leaves_no_trace() -> None:
    marks, one, two = Marks(), Value("one"), Value("two")
    both = marks.total({1: one, 2: two}.items())
    alone = marks.total({1: one}.items())

    assert marks.total({2: two, 1: one}.items()) == both
    assert marks.total({1: Value("one")}.items()) == alone
