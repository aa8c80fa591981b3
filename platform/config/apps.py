"""The project as an app, so that its checks are there whenever Django is."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """Registers the checks of the settings."""

    name = "config"
    verbose_name = "Tidegate"

    def ready(self) -> None:
        """Load the checks, which register themselves."""
        from config import checks  # noqa: F401, PLC0415  settings first
