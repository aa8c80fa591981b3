"""What a failed answer of the API server means: an HTTP status and body as one of the port's errors."""

import json
import re
from collections.abc import Mapping
from typing import Any

from clusters.port import ClusterError, Gone, NameTaken, NotThere, QuotaRefused, Refused, Unreachable

GONE = 410
NOT_FOUND = 404
CONFLICT = 409
UNAUTHORIZED = 401
UNPROCESSABLE = 422
THROTTLED = 429

FORBIDDEN = 403
_REFUSALS = frozenset({400, FORBIDDEN, 405, 406, 413, 414, 415, UNPROCESSABLE})
_LONGEST_TEXT = 1000
# What the API server says where our account lacks a right: it tells nothing about the object that was sent.
_NO_RIGHT = re.compile(r"User .* cannot [a-z]+ (resource|path) ")
# What its admission plugins say while they still read, after it has started.
_STARTS = "not yet ready to handle request"


def error(status: int, body: bytes, headers: Mapping[str, str]) -> ClusterError:
    """Return the port's error for an answer that is not a success."""
    answer = _status_object(body)
    text = message(status, answer, body)
    if status == GONE:
        return Gone(text)
    if status == FORBIDDEN and _is_quota(text):
        return QuotaRefused(text)
    if status == FORBIDDEN and (_NO_RIGHT.search(text) or _STARTS in text):
        return Unreachable(text)
    if is_namespace_leaving(answer):
        return NameTaken(text, leaving=True)
    if status == NOT_FOUND:
        return NotThere(text)
    if status in _REFUSALS:
        return Refused(text)
    return Unreachable(text, retry_after=retry_after(headers))


def message(status: int, answer: Mapping[str, Any], body: bytes) -> str:
    """Return the server's own words, or the start of what it sent instead."""
    words = answer.get("message")
    if not isinstance(words, str) or not words:
        words = body.decode("utf-8", "replace").strip()
    return words[:_LONGEST_TEXT] or f"HTTP {status} without a text"


def is_namespace_leaving(answer: Mapping[str, Any]) -> bool:
    """Tell whether an object was refused because its namespace is being deleted."""
    details = answer.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return any(isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes or ())


def is_missing_namespace(body: bytes) -> bool:
    """Tell whether a 404 means that the namespace is not there, rather than the object in it."""
    details = _status_object(body).get("details")
    return isinstance(details, dict) and details.get("kind") == "namespaces"


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _is_quota(text: str) -> bool:
    # A quota that was just made has no status yet and refuses everything for a moment.
    return "exceeded quota" in text or "status unknown for quota" in text


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause in seconds that the server asks for."""
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None
