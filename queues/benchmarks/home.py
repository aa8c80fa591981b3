"""This process at home in an ensemble: its database and its broker, whatever the settings said before."""

from urllib.parse import urlsplit

from celery import current_app
from django.conf import settings
from django.db import connections

from queues import hints
from stack.ensemble import Ensemble


def settle(ensemble: Ensemble) -> None:
    """Speak to the ensemble's servers from now on. Before any thread has a connection of its own."""
    connections.close_all()
    parts = urlsplit(ensemble.postgres.url)
    settings.DATABASES["default"].update(
        HOST=parts.hostname, PORT=str(parts.port), NAME=parts.path.lstrip("/"), USER=parts.username, PASSWORD=""
    )
    settings.REDIS_URL = ensemble.valkey.url
    current_app.conf.update(broker_url=ensemble.valkey.url)
    hints.broker.cache_clear()
