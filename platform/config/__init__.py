"""The Django project: settings, URLs, Celery, ASGI, and errors translated once."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
