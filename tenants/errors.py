"""What can go wrong in the domain's own words; the edges translate these once (config.errors).

A body that cannot be read is 400, one that can be read but asks for something that is not allowed is 422.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One wrong field: where it stands (JSON pointer, "" for the whole), what was given, what is allowed."""

    pointer: str
    code: str
    detail: str
    given: object = None
    allowed: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What the caller could do about it, and where."""

    action: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A warning that goes with an accepted change."""

    code: str
    detail: str


class DomainError(Exception):
    """An anticipated refusal with one sentence for people; ``code`` is for machines and never changes."""

    status: ClassVar[int] = 400
    title: ClassVar[str] = "The request cannot be served"
    code: str = "refused"

    def __init__(
        self, detail: str, *, code: str = "", fields: Iterable[FieldError] = (), hints: Iterable[Hint] = ()
    ) -> None:
        """Say what is wrong; ``code`` narrows the class's own code."""
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.fields = tuple(fields)
        self.hints = tuple(hints)


class Unreadable(DomainError):
    """The request itself cannot be read: broken JSON, a wrong cursor, an unknown parameter."""

    status = 400
    title = "The request cannot be read"
    code = "unreadable"


class Invalid(DomainError):
    """The request can be read, but a value in it is not allowed."""

    status = 422
    title = "A value is not allowed"
    code = "invalid"

    @classmethod
    def field(
        cls, pointer: str, detail: str, *, code: str = "invalid", given: object = None, allowed: Iterable[object] = ()
    ) -> "Invalid":
        """Return the error about one field."""
        return cls(
            detail,
            fields=[FieldError(pointer=pointer, code=code, detail=detail, given=given, allowed=tuple(allowed))],
        )


class NotAuthenticated(DomainError):
    """Nobody known asks: no token, or one that is wrong, expired or revoked."""

    status = 401
    title = "Sign in or send a valid token"
    code = "not_authenticated"


class NotAllowed(DomainError):
    """The actor may see this but may not do that."""

    status = 403
    title = "Not allowed"
    code = "not_allowed"


class NotFound(DomainError):
    """It does not exist, or not for this actor: which of both is not said."""

    status = 404
    title = "Not found"
    code = "not_found"


class Conflict(DomainError):
    """It cannot be done in the present state of things."""

    status = 409
    title = "Not possible in the present state"
    code = "conflict"


class Stale(DomainError):
    """The thing was changed since the caller read it."""

    status = 412
    title = "Changed since you read it"
    code = "stale"


class TooLarge(DomainError):
    """The body is larger than what is read."""

    status = 413
    title = "Too large"
    code = "too_large"


class PreconditionRequired(DomainError):
    """The write must say which version it changes."""

    status = 428
    title = "If-Match is needed"
    code = "precondition_required"


class TooManyAtOnce(DomainError):
    """The caller has as many of these open as one may have at once."""

    status = 429
    title = "Too many at once"
    code = "too_many_at_once"


class Unavailable(DomainError):
    """A part that the answer needs is not there now; try again."""

    status = 503
    title = "Not available at the moment"
    code = "unavailable"
