"""What an API server says when it refuses: `Status` objects with their codes."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusters.emulator.kinds import Kind


class ApiError(Exception):
    """A refusal, as the API tells it."""

    def __init__(self, code: HTTPStatus, reason: str, message: str, *, details: dict[str, Any] | None = None) -> None:
        """Keep what the `Status` object needs."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """Return the refusal as a Kubernetes `Status`."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": int(self.code),
        }


def success(kind: "Kind", name: str, uid: str) -> dict[str, Any]:
    """Return the `Status` of a deletion that left nothing behind."""
    details = {"name": name, "kind": kind.plural, "uid": uid}
    if kind.group:
        details["group"] = kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def about(kind: "Kind", name: str) -> dict[str, Any]:
    """Return the details that name one object."""
    details = {"name": name, "kind": kind.plural}
    if kind.group:
        details["group"] = kind.group
    return details


def not_found(kind: "Kind", name: str) -> ApiError:
    """There is no such object."""
    return ApiError(HTTPStatus.NOT_FOUND, "NotFound", f'{kind.qualified} "{name}" not found', details=about(kind, name))


def no_such_path() -> ApiError:
    """There is no such kind or path."""
    return ApiError(HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource")


def already_exists(kind: "Kind", name: str) -> ApiError:
    """The name is taken."""
    message = f'{kind.qualified} "{name}" already exists'
    return ApiError(HTTPStatus.CONFLICT, "AlreadyExists", message, details=about(kind, name))


def conflict(kind: "Kind", name: str, why: str = "") -> ApiError:
    """Someone else was faster, or a precondition does not hold."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return ApiError(HTTPStatus.CONFLICT, "Conflict", message, details=about(kind, name))


def invalid(kind: "Kind", name: str, causes: "Sequence[tuple[str, str]]") -> ApiError:
    """The object breaks a rule; causes are pairs of field and complaint."""
    told = [f"{field}: {complaint}" for field, complaint in causes]
    text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    owner = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = about(kind, name)
    details["kind"] = kind.kind
    details["causes"] = [
        {"reason": "FieldValueInvalid", "message": complaint, "field": field} for field, complaint in causes
    ]
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", f'{owner} "{name}" is invalid: {text}', details=details)


def bad_request(message: str) -> ApiError:
    """The request cannot be understood."""
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def forbidden(kind: "Kind", name: str, why: str, *, cause: str = "") -> ApiError:
    """Admission refuses the object."""
    details = about(kind, name)
    if cause:
        details["causes"] = [{"reason": cause, "message": why}]
    return ApiError(
        HTTPStatus.FORBIDDEN, "Forbidden", f'{kind.qualified} "{name}" is forbidden: {why}', details=details
    )


def unauthorized() -> ApiError:
    """No token, or a wrong one."""
    return ApiError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    """The path exists, the verb does not."""
    return ApiError(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


def expired(message: str) -> ApiError:
    """The position is too old: list again."""
    return ApiError(HTTPStatus.GONE, "Expired", message)


def unsupported_media(given: str) -> ApiError:
    """The body is of a type that we do not read."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        f"application/yaml (got {given})"
    )
    return ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)


def too_large() -> ApiError:
    """The body is larger than an API server takes."""
    message = "Request entity too large: limit is 3145728"
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", message)
