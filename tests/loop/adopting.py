"""Hands that make objects in a team's namespace, as people with kubectl would, and look at what became of them."""

from typing import Any

from queues.models import Job
from queues.namespaces import namespace_of
from tests.loop.stage import Stage

QUEUE = {"kueue.x-k8s.io/queue-name": "default"}


class Hands:
    """Makes and changes objects of one kind in the namespace of team nlp."""

    def __init__(self, stage: Stage, path: str = "/apis/batch/v1", plural: str = "jobs") -> None:
        self.stage, self.namespace = stage, namespace_of("nlp")
        stage.cluster.ensure_team(self.namespace, team="nlp", ceiling=None)
        self.collection = f"{path}/namespaces/{self.namespace}/{plural}"

    def make(self, manifest: dict[str, Any], **labels: str) -> None:
        """Make an object; it is suspended and labelled for the queue unless it says otherwise."""
        manifest["spec"].setdefault("suspend", True)
        manifest["metadata"].setdefault("labels", labels or QUEUE)
        self.stage.cluster.api.ask("create", self.collection, body=manifest)

    def get(self, name: str) -> dict[str, Any]:
        """Return an object as it is."""
        return self.stage.cluster.api.ask("get", f"{self.collection}/{name}")

    def suspend(self, name: str, *, wanted: bool) -> None:
        """Suspend an object or let it run, as somebody else would."""
        self.stage.cluster.api.ask(
            "patch",
            f"{self.collection}/{name}",
            body={"spec": {"suspend": wanted}},
            media="application/merge-patch+json",
        )

    def label(self, name: str, queue: str | None) -> None:
        """Give an object another queue's label, or none, as somebody else would."""
        body = {"metadata": {"labels": dict.fromkeys(QUEUE, queue)}}
        self.stage.cluster.api.ask(
            "patch", f"{self.collection}/{name}", body=body, media="application/merge-patch+json"
        )

    def delete(self, name: str) -> None:
        """Delete an object with its pods."""
        query = {"propagationPolicy": "Background"}
        self.stage.cluster.api.ask("delete", f"{self.collection}/{name}", query=query)

    def events(self) -> list[str]:
        """Return what events say."""
        found = self.stage.cluster.api.ask("list", f"/api/v1/namespaces/{self.namespace}/events")
        return [event["message"] for event in found["items"] if event["reason"] == "NotQueued"]


def job_of(name: str) -> Job:
    """Return the job that was made of an object."""
    return Job.objects.get(name=name)
