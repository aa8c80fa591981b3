"""A pytest plugin: one real PostgreSQL for the whole run, started before Django reads its settings.

Workers of pytest-xdist inherit DATABASE_URL and use databases of their own in the same server.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "platform"))

from stack.servers import Postgres


def start() -> None:
    """Start PostgreSQL unless DATABASE_URL names one; it stops with this process. Static files get a folder too."""
    if os.environ.get("DATABASE_URL"):
        return
    folder = Path(tempfile.mkdtemp(prefix="tidegate-tests-"))
    (folder / "static").mkdir()
    os.environ.setdefault("TIDEGATE_STATIC_ROOT", str(folder / "static"))
    server = Postgres(folder / "postgres", durable=False).start()
    os.environ["DATABASE_URL"] = server.url
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.stop)


# Not in pyproject.toml: the rules' tests also run without Django's plugin, which alone knows such a setting.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Tests start some hundred processes; without bytecode each takes seconds to compile what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
start()
