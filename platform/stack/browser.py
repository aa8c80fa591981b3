"""Makes sure of a Chromium for the browser journeys: `python -m stack.browser`.

Installs Debian's where it may (root with apt-get); else says in one line what is skipped and how to get it. In CI
(CI=true) a missing browser fails.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 600


def chromium() -> str | None:
    """Return the path of an installed Chromium, or None; TIDEGATE_CHROMIUM names one."""
    if named := os.environ.get("TIDEGATE_CHROMIUM"):
        return shutil.which(named)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> str:
    """Install Debian's Chromium; return why it could not be, or nothing."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "only root on Debian or Ubuntu can have it installed"
    print("Installing Debian's chromium for the browser journeys …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        try:
            done = subprocess.run(
                ["apt-get", *words],  # noqa: S607  apt-get of this machine
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"apt-get {words[0]} took longer than {SECONDS} s"
        if done.returncode:
            return f"apt-get {words[0]} failed: {(done.stderr or done.stdout).strip()[-300:]}"
    return ""


def main() -> int:
    """Look, install where possible, and say what follows."""
    if chromium():
        return 0
    trouble = install()
    if chromium():
        return 0
    print(f"Browser journeys are skipped: no Chromium ({trouble}). Get it with: apt-get install chromium")
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
