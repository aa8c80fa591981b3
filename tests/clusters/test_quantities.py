from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters import quantities


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("8", 8),
        ("+3", 3),
        ("-2", -2),
        ("1500m", Fraction(3, 2)),
        ("100u", Fraction(1, 10_000)),
        ("5n", Fraction(5, 10**9)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("2.", 2),
        ("1k", 1000),
        ("2M", 2 * 10**6),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1Ei", 2**60),
    ],
)
def test_a_quantity_is_read_exactly(text: str, amount: Fraction) -> None:
    assert quantities.parse(text) == amount


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1g", "1KI", "1 Gi", "0x10", "1e", "1mi", "--1", ".", "GiB", "٣", "1e999", "1_000"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        quantities.parse(text)


@pytest.mark.parametrize(("text", "thousandths"), [("2", 2000), ("1500m", 1500), ("1u", 1), ("0.1", 100), (3, 3000)])
def test_cores_are_thousandths_rounded_up(text: str | int, thousandths: int) -> None:
    assert quantities.milli(text) == thousandths


@pytest.mark.parametrize(("text", "units"), [("8", 8), ("1Gi", 2**30), ("1500m", 2), ("1m", 1), (110, 110)])
def test_units_are_whole_rounded_up(text: str | int, units: int) -> None:
    assert quantities.whole(text) == units


def test_counted_resources_are_the_extended_ones_that_are_there() -> None:
    resources = {
        "cpu": "8",
        "memory": "1Gi",
        "hugepages-2Mi": "0",
        "nvidia.com/gpu": "8",
        "nvidia.com/mig-1g.10gb": "0",
    }

    assert quantities.counted(resources) == {"nvidia.com/gpu": 8}


@given(st.integers(min_value=0, max_value=10**15))
def test_bytes_survive_being_written_and_read(amount: int) -> None:
    assert quantities.whole(str(amount)) == amount
    assert quantities.milli(f"{amount}m") == amount
