"""Kubernetes quantities as whole thousandths."""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

_SHAPE = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,2})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class QuantityError(ValueError):
    """The text is no quantity."""


@lru_cache(maxsize=4096)
def milli(text: str) -> int:
    """Return thousandths of the quantity, rounded up; raise QuantityError."""
    found = _SHAPE.fullmatch(text)
    if not found:
        raise QuantityError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, exponent, suffix = found.groups()
    value = Fraction(number)
    if exponent:
        value *= Fraction(10) ** int(exponent[1:])
    elif suffix in _BINARY:
        value *= 1024 ** (_BINARY.index(suffix) + 1)
    elif suffix:
        value *= Fraction(10) ** _DECIMAL[suffix]
    return ceil(value * 1000)


def render(thousandths: int, *, binary: bool = False) -> str:
    """Write thousandths in Kubernetes' shortest form; ``binary`` uses Ki, Mi, Gi where they divide evenly."""
    if thousandths % 1000:
        return f"{thousandths}m"
    whole, suffix = thousandths // 1000, ""
    if binary:
        for name in _BINARY:
            if not whole or whole % 1024:
                break
            whole, suffix = whole // 1024, name
    return f"{whole}{suffix}"
