"""The names and labels of our Kubernetes objects, from ids alone, so that doing it again gives the same."""

import re
from collections.abc import Iterable
from hashlib import sha256

PREFIX = "tidegate.io"
LABEL_JOB = f"{PREFIX}/job"
LABEL_WAVE = f"{PREFIX}/wave"
LABEL_GROUP = f"{PREFIX}/group"
LABEL_TEAM = f"{PREFIX}/team"
LABEL_QUEUE = f"{PREFIX}/queue"
# Of no node in a cluster: the rules know by it to which cluster a node belongs.
LABEL_CLUSTER = f"{PREFIX}/cluster"
ANNOTATION_JOB_NAME = f"{PREFIX}/job-name"
ANNOTATION_TEAM = f"{PREFIX}/team-name"
ANNOTATION_QUEUE = f"{PREFIX}/queue-name"
ANNOTATION_ATTEMPT = f"{PREFIX}/attempt"
ANNOTATION_TASK = f"{PREFIX}/task"
ANNOTATION_DEVICES = f"{PREFIX}/devices"
ANNOTATION_ADOPTED = f"{PREFIX}/adopted"
ANNOTATION_REFUSED = f"{PREFIX}/refused"
GATE = f"{PREFIX}/placement"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FENCE = "tidegate-fence"

_LONGEST = 63
_DIGEST = 8
_HEX_ID = re.compile(r"[0-9a-f]{32}")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_RESERVED = r"(?:[a-z0-9.-]*\.)?(?:kubernetes\.io|k8s\.io|x-k8s\.io|tidegate\.io)/"
_PREFIX = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/"
_LABEL_KEY = re.compile(rf"(?!{_RESERVED})(?:{_PREFIX})?[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def object_name(job: str, number: int, group: int) -> str:
    """Name the Kubernetes Job of one group of a job's wave; room is left for the completion index behind it."""
    return f"tg-{_compact(job)}-{number}-{group}"


def raw_name(job: str, number: int) -> str:
    """Name an object that people wrote themselves; short, since its controller puts names of its own behind it."""
    return f"tg-{_digest(_compact(job))[:12]}-{number}"


def service_name(job: str, number: int) -> str:
    """Name the headless Service at which the tasks of a wave find each other."""
    return f"tg-{_compact(job)}-{number}"


def priority_class_name(name: str, value: int) -> str:
    """Name the Kubernetes priority class that mirrors one of ours; its value cannot change, so each has its own."""
    tail = f"-{'m' if value < 0 else ''}{abs(value)}"
    return f"tidegate-{dns_label(name, longest=_LONGEST - len('tidegate-') - len(tail))}{tail}"


def label_value(text: str) -> str:
    """Return the text where it is a valid label value, else a readable likeness that differs for different texts."""
    if _LABEL_VALUE.fullmatch(text):
        return text
    return _likeness(re.sub(r"[^A-Za-z0-9._-]+", "-", text), text, longest=_LONGEST)


def pod_labels(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return those of a job's own labels that its pods can carry: well formed, not of Kubernetes' domains or ours."""
    return {key: value for key, value in pairs if _LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)}


def dns_label(text: str, *, longest: int = _LONGEST) -> str:
    """Return the text where it is a valid DNS label, else a readable likeness that differs for different texts."""
    if len(text) <= longest and _DNS_LABEL.fullmatch(text):
        return text
    return _likeness(re.sub(r"[^a-z0-9]+", "-", text.lower()), text, longest=longest)


def _likeness(readable: str, text: str, *, longest: int) -> str:
    start = readable[: longest - _DIGEST - 1].strip("._-")
    return f"{start}-{_digest(text)[:_DIGEST]}".lstrip("-")


def _compact(job: str) -> str:
    plain = job.replace("-", "").lower()
    return plain if _HEX_ID.fullmatch(plain) else _digest(job)[:32]


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
