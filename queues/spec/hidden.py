"""What looks like a credential in the environment of a spec or a Kubernetes object, and is never shown again."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from queues.spec.fields import escape
from tenants.errors import Notice

HIDDEN = "(hidden)"
INSTEAD = "secret_env {NAME: SECRET/KEY}, in a manifest valueFrom.secretKeyRef"
SAY_AGAIN = "was hidden when it was shown: say its value again, or better name the key of a Secret in secret_env"
# TOKENIZERS_PARALLELISM and its like are no secrets.
_CREDENTIAL = re.compile(r"TOKEN(?!IZ)|SECRET|PASSW|KEY|CREDENTIAL", re.IGNORECASE)


class Credential(NamedTuple):
    """A value that looks like one: where it lies, and the name of its variable."""

    pointer: str
    name: str
    inside: Any
    key: str

    @property
    def is_hidden(self) -> bool:
        """Whether somebody sent back what had been shown instead of the value."""
        return bool(self.inside[self.key] == HIDDEN)


def credentials(found: object, pointer: str = "") -> Iterator[Credential]:
    """Find every value in ``env``, a mapping or Kubernetes' list, whose name is that of a credential."""
    if isinstance(found, list | tuple):
        for place, each in enumerate(found):
            yield from credentials(each, f"{pointer}/{place}")
    elif isinstance(found, Mapping):
        for key, each in found.items():
            below = f"{pointer}/{escape(key)}"
            if key == "env":
                yield from _variables(each, below)
            else:
                yield from credentials(each, below)


def masked(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a spec or an object as people may see it; the given one stays as it is."""
    if next(credentials(shown), None) is None:
        return shown
    copy = deepcopy(shown)
    for each in credentials(copy):
        each.inside[each.key] = HIDDEN
    return copy


def warnings(spec: Mapping[str, Any]) -> tuple[Notice, ...]:
    """Return what is to be said of a stored spec that has credentials in its environment."""
    names = dict.fromkeys(each.name for each in credentials(spec))
    if not names:
        return ()
    what = f"{', '.join(names)}: values that look like credentials are stored with the job, though never shown"
    return (Notice(code="PLAIN_CREDENTIAL", detail=f"{what}. Put them into a Secret and name it: {INSTEAD}."),)


def _variables(env: object, pointer: str) -> Iterator[Credential]:
    if isinstance(env, Mapping):
        for name, value in env.items():
            if _is_one(name, value):
                yield Credential(f"{pointer}/{escape(name)}", name, env, name)
    elif isinstance(env, list | tuple):
        for place, row in enumerate(env):
            if isinstance(row, Mapping) and _is_one(row.get("name"), row.get("value")):
                yield Credential(f"{pointer}/{place}/value", row["name"], row, "value")


def _is_one(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, str) and value != "" and bool(_CREDENTIAL.search(name))
