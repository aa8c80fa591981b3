"""Celery: queues `admission` for the loop, `release` for talking to clusters; beat is the net under the hints."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# A worker would load every page for them and read none of their answers; `manage.py check` and a watcher's start do.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("tidegate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
