#!/usr/bin/env python
"""Run Tidegate's management commands."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "platform"))


def main() -> None:
    """Hand the command line to Django."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415  needs the path and settings above

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
