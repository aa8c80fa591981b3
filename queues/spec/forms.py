"""How the fields of a spec are written, how much of each there may be, and which come with later releases."""

import re
from datetime import timedelta

from queues.spec.values import TEST_ANNOTATIONS

MOST_TASKS = 10_000
MOST_UNITS = 100_000
MOST_GROUPS = 16
MOST_LABELS = 32
MOST_RETRIES = 10
MOST_CPU_MILLI = 100_000_000
MOST_MEMORY = 2**60
LONGEST = timedelta(days=365)
DEFAULT_GRACE = timedelta(seconds=30)

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
NAME_SAYS = "letters, digits, '.', '_' and '-', starting and ending with a letter or digit"
GROUP_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
GROUP_NAME_SAYS = "up to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit"
LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,98}[A-Za-z0-9])?")
LABEL_KEY_SAYS = "up to 100 letters, digits, '.', '_', '/' and '-', starting and ending with a letter or digit"
NODE_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
NODE_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
NODE_SAYS = "written as Kubernetes writes labels"
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")
ENV_SAYS = "letters, digits, '_', '.' and '-', not starting with a digit"
SECRET = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
SECRET_FORM = "the name of a Kubernetes Secret: a-z, 0-9, '-' and '.'"  # noqa: S105  words about a name
ACCOUNT_SAYS = "the name of a ServiceAccount of the team: a-z, 0-9, '-' and '.'"
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
IMAGE_SAYS = "an image reference like registry.example/name:tag"
GPUS = re.compile(r"(?P<type>[a-z0-9-]{1,63}):(?P<count>\d{1,9})", re.ASCII)
GPUS_SAYS = '{count: 8, type: h100} or "h100:8"'
DURATION_SAYS = '"12h", "90m", "1d6h" or whole seconds'
ANNOTATION_KEY = re.compile(re.escape(TEST_ANNOTATIONS) + r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

SHARED = ("gpus", "resources", "run", "node_labels", "annotations")
# What a manifest says itself.
WRITTEN = ("tasks", "run", "resources", "node_labels", "annotations")
SPEC_LATER = {
    "notify": "notify is not supported yet; it comes with a later release",
    "parallelism": "parallelism is not supported yet; it comes with a later release",
}
RESOURCES_LATER = {"ephemeral": "ephemeral storage is not supported yet; it comes with a later release"}
