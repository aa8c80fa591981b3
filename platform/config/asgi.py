"""The ASGI entry point for uvicorn."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Requests have many threads here, so connections are shared between them.
os.environ.setdefault("TIDEGATE_DB_POOL", "10")

import django

from config.handler import Handler
from config.limits import LimitBodies

django.setup(set_prefix=False)
application = LimitBodies(Handler())
