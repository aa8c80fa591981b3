"""What one look at a page has read already, so that its parts read the same only once.

A look is a request that changes nothing. Outside of looks, and so in whatever writes, everything is read anew.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
T = TypeVar("T")

_read: ContextVar[dict[object, Any] | None] = ContextVar("read", default=None)


@contextmanager
def look() -> Iterator[None]:
    """Remember what is read ``once`` until this is left."""
    token = _read.set({})
    try:
        yield
    finally:
        _read.reset(token)


def looking() -> bool:
    """Return whether what is read ``once`` is remembered now."""
    return _read.get() is not None


def once(read: Callable[P, T]) -> Callable[P, T]:
    """Let a function of hashable arguments be called once in a look; nobody may change what it returns."""

    @wraps(read)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
        known = _read.get()
        if known is None:
            return read(*args, **kwargs)
        key = (read, args, tuple(sorted(kwargs.items())))
        if key not in known:
            known[key] = read(*args, **kwargs)
        return cast("T", known[key])

    return remembered
