"""What people wrote themselves, on one API server: started, taken back, refused, found."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256

from clusters import answers, kinds, names, raw, watching
from clusters.asking import MERGE, Asker, Failure, Json, path_of
from clusters.kinds import Kind
from clusters.port import Launch, NameTaken, Offer, RawObject, Refused, WaveRef


class WrittenObjects:
    """Objects of the kinds in the table; starting raises Failure, which the launch judges."""

    def __init__(self, asker: Asker) -> None:
        """Speak through this asker; nothing is asked yet."""
        self._asker = asker
        self._served: frozenset[str] = frozenset()

    def start(self, launch: Launch, written: RawObject) -> None:
        """Create the object, or let an adopted one run."""
        kind = kinds.BY_KEY[written.kind]
        objects = path_of(f"/apis/{kind.api}", launch.namespace, kind.plural)
        if written.adopted:
            self._let_run(launch, written, kind, objects)
        else:
            self._asker.create_owned(objects, raw.new(launch, written))

    def take_back(self, ref: WaveRef, kind: Kind) -> None:
        """Suspend an adopted object that has not ended; it is no wave's any more."""
        address = path_of(f"/apis/{kind.api}", ref.namespace, kind.plural, ref.adopted)
        found = self._asker.unless_missing("get", address)
        labels = (found or {}).get("metadata", {}).get("labels") or {}
        if found is None or labels.get(names.LABEL_WAVE) != names.label_value(ref.wave):
            return
        over = kinds.has_succeeded(kind, found) or kinds.has_failed(kind, found)
        self._asker.unless_missing("patch", address, body=raw.back(kind, over=over), media=MERGE)

    def refuse(self, offer: Offer, text: str) -> None:
        """Write why an object is not taken, on it and as an event."""
        kind = kinds.BY_KEY[offer.kind]
        address = path_of(f"/apis/{kind.api}", offer.namespace, kind.plural, offer.name)
        if self._asker.unless_missing("patch", address, body=raw.refusal(text), media=MERGE) is not None:
            self._asker.create(path_of("/api/v1", offer.namespace, "events"), _event(offer, kind, text))

    def listed(
        self, wanted: Mapping[str, tuple[str, watching.Parse]]
    ) -> tuple[dict[str, tuple[list[Json], str]], frozenset[str]]:
        """List all objects of those kinds that the cluster serves, and name those of which nothing can be said.

        These are refused to us, or missing where they were served a moment ago, as while an API server starts.
        """
        told = self._kinds_served()
        if told is None:
            return {}, frozenset(wanted)
        found, unseen = {}, set(self._served - told)
        self._served = told
        for key in sorted(wanted.keys() & self._served):
            try:
                found[key] = self._asker.listed(wanted[key][0], {})
            except Refused:
                unseen.add(key)
        return found, frozenset(unseen)

    def _let_run(self, launch: Launch, written: RawObject, kind: Kind, objects: str) -> None:
        name = written.manifest["metadata"]["name"]
        found = self._asker.unless_missing("get", f"{objects}/{name}")
        if found is None or found["metadata"]["uid"] != written.adopted:
            raise Refused(f"{kind.name} {name} was deleted while it waited")
        wave = (found["metadata"].get("labels") or {}).get(names.LABEL_WAVE)
        if wave == names.label_value(launch.wave):
            return
        if wave is not None:
            raise NameTaken(f"{kind.name} {name} still belongs to an earlier wave", leaving=True)
        if kinds.has_succeeded(kind, found) or kinds.has_failed(kind, found):
            raise NameTaken(f"{kind.name} {name} has ended, which is to be seen first", leaving=True)
        if not raw.same_size(kind, raw.as_written(found, kind), written.manifest):
            raise Refused(f"{kind.name} {name} was changed while it waited: delete it and create it anew")
        try:
            self._asker.api.ask("replace", f"{objects}/{name}", body=raw.release(launch, found, kind))
        except Failure as failure:
            if failure.status == answers.CONFLICT:
                raise NameTaken(f"{kind.name} {name} is being changed at this moment", leaving=True) from failure
            if failure.status == answers.UNPROCESSABLE and kind is kinds.JOB:
                self._make_new(found, f"{objects}/{name}", failure)
            raise

    def _make_new(self, found: Json, address: str, refused: Failure) -> None:
        """Let a Job that has run before be steered anew, which Kubernetes may refuse: raise NameTaken, to try again.

        A template may change only when its pods were seen to be gone, and before 1.36 only in a Job that never started.
        """
        status, name = found.get("status") or {}, found["metadata"]["name"]
        if status.get("active"):
            raise NameTaken(f"Job {name} still counts pods of its last run", leaving=True) from refused
        if status.get("startTime"):
            try:
                self._asker.api.ask("patch", f"{address}/status", body={"status": {"startTime": None}}, media=MERGE)
            except Failure as failure:
                if failure.status == answers.FORBIDDEN:
                    raise failure.judged() from failure
                told = "this Kubernetes lets no template change once its Job has run: make the Job anew"
                raise Refused(f"Job {name} cannot start again: {told} ({refused.judged()})") from failure
            raise NameTaken(f"Job {name} is made ready to start again", leaving=True) from refused

    def _kinds_served(self) -> frozenset[str] | None:
        """Return the kinds whose API versions the cluster serves, or None where it does not tell us."""
        try:
            groups = self._asker.ask("get", "/apis").get("groups") or []
        except Refused:
            return None
        served = {version["groupVersion"] for group in groups for version in group["versions"]}
        return frozenset(kind.key for kind in kinds.KINDS if kind.api in served)


def _event(offer: Offer, kind: Kind, text: str) -> Json:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{offer.name[:200]}.{sha256((offer.uid + text).encode()).hexdigest()[:16]}",
            "namespace": offer.namespace,
        },
        "involvedObject": {
            "apiVersion": kind.api,
            "kind": kind.name,
            "namespace": offer.namespace,
            "name": offer.name,
            "uid": offer.uid,
        },
        "type": "Warning",
        "reason": "NotQueued",
        "message": text[:1000],
        "source": {"component": "tidegate"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
