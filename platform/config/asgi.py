"""The ASGI entry point for uvicorn."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Each request has a thread of its own here, so connections must be shared to be kept at all.
os.environ.setdefault("TIDEGATE_DB_POOL", "10")

from django.core.asgi import get_asgi_application

from config.limits import LimitBodies

application = LimitBodies(get_asgi_application())
