"""Reading what a task mounts and takes from Secrets: volumes, and single variables by reference."""

import re

from queues.spec import amounts
from queues.spec.fields import Section, kind, show
from queues.spec.forms import ENV_NAME, ENV_SAYS, SECRET
from queues.spec.values import Pairs, Volume
from tenants.allowances import Allowance

MOST_VOLUMES = 20
PATH = re.compile(r"/[^:\x00]{1,254}")
PATH_SAYS = "an absolute path, without ':'"
CLAIM_SAYS = "the name of a PersistentVolumeClaim of the team: a-z, 0-9, '-' and '.'"
REFERENCE = re.compile(SECRET.pattern + r"/[A-Za-z0-9._-]{1,253}")
REFERENCE_SAYS = "SECRET/KEY, like hf/token"
SOURCES = ("claim", "size", "host")


def secret_env(run: Section) -> Pairs:
    """Read variables that come from keys of Secrets, sorted by name."""
    given = run.take("secret_env", {})
    if not isinstance(given, dict):
        run.wrong("secret_env", "not_a_mapping", f"secret_env maps names to {REFERENCE_SAYS}, not {kind(given)}")
        return ()
    found = []
    for name, source in given.items():
        pointer = run.at("secret_env", name)
        if not isinstance(name, str) or not ENV_NAME.fullmatch(name):
            run.wrong(pointer, "bad_key", f"a name of secret_env is {ENV_SAYS}; not {show(name)!r}", given=name)
            continue
        found.append((name, run.checked(pointer, source, most=510, form=REFERENCE, says=REFERENCE_SAYS)))
    return tuple(sorted(found))


def volumes(run: Section, team: str, allowed: frozenset[str]) -> tuple[Volume, ...]:
    """Read what is mounted: claims, scratch space of a size, and paths of the node where the team may."""
    given = run.take("volumes", [])
    if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
        detail = "volumes is a list of {path: /data, claim: NAME} and {path: /scratch, size: 100Gi}"
        run.wrong("volumes", "not_a_list", detail, given=given)
        return ()
    if len(given) > MOST_VOLUMES:
        run.wrong("volumes", "too_many", f"volumes has at most {MOST_VOLUMES} entries, not {len(given)}")
        return ()
    found = tuple(
        _volume(Section(row, run.at("volumes", place), run.errors), team, allowed) for place, row in enumerate(given)
    )
    paths = [volume.path for volume in found]
    for place, path in enumerate(paths):
        if path and path in paths[:place]:
            run.wrong(run.at("volumes", place, "path"), "twice", f"two volumes are mounted at {path}", given=path)
    return found


def _volume(row: Section, team: str, allowed: frozenset[str]) -> Volume:
    said = [source for source in SOURCES if row.has(source)]
    if len(said) != 1:
        row.wrong(row.pointer, "one_source", "a volume has one of claim, size and host", allowed=SOURCES)
    path = row.text("path", most=255, form=PATH, says=PATH_SAYS)
    claim = row.text("claim", "", most=253, form=SECRET, says=CLAIM_SAYS)
    host = row.text("host", "", most=255, form=PATH, says=PATH_SAYS)
    size = row.parsed("size", amounts.memory, 1, '"100Gi", "512Mi" or whole bytes')
    memory = row.flag("memory", default=False)
    read_only = row.flag("read_only", default=False)
    if memory and not row.has("size"):
        row.wrong("memory", "not_allowed", "memory is for scratch space, which has a size")
    size = size if row.has("size") else 0
    if row.has("size") and size <= 0:
        row.wrong("size", "out_of_range", "size is above zero", given=row.data["size"])
    if host and Allowance.HOST_PATH not in allowed:
        detail = f"paths of nodes are not allowed to team {team}: a platform admin may allow it (host_path)"
        row.wrong("host", "not_allowed", detail)
    row.close()
    return Volume(path=path, claim=claim, host=host, size=size, memory=memory, read_only=read_only)
