"""The app's start: what queues do when teams change."""

from django.apps import AppConfig


class QueuesConfig(AppConfig):
    """Jobs and the loop that admits them."""

    name = "queues"

    def ready(self) -> None:
        """Follow the changes that people make to teams, quotas and flavors."""
        from queues.following import follow  # noqa: PLC0415  models are not there before ready
        from tenants.changes import on_change  # noqa: PLC0415

        on_change(follow)
