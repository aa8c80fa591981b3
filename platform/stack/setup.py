"""Makes `.venv` from a lock file: `python -m stack.setup [--dev]`; needs nothing but the standard library.

A stamp in `.venv` holds what was installed, so that nothing happens until a lock file, the Python or the place changes.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
STAMP = VENV / "tidegate-setup"
ROOM = 1_500_000_000
LOCKS = {False: ROOT / "requirements.lock", True: ROOT / "requirements-dev.lock"}


class SetupFailed(Exception):
    """Something is missing; the message names it and what brings it."""


def main(arguments: list[str]) -> int:
    """Install what is not installed yet and return the exit code."""
    try:
        setup(dev="--dev" in arguments)
    except SetupFailed as failure:
        print(f"\nSetup stopped: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSetup interrupted; the next run goes on from here.", file=sys.stderr)
        return 130
    return 0


def setup(*, dev: bool) -> None:
    """Bring `.venv` to the lock file; the development lock holds everything of the other one."""
    if installed() in ({wanted(dev=True)} if dev else {wanted(dev=True), wanted(dev=False)}):
        return
    check()
    if not usable():
        print(f"Making .venv with Python {sys.version.split()[0]} …", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        make_venv()
    STAMP.unlink(missing_ok=True)
    install(LOCKS[dev])
    STAMP.write_text(wanted(dev=dev))


def make_venv() -> None:
    """Make an empty `.venv`."""
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False, capture_output=True, text=True)
    if made.returncode:
        raise SetupFailed(f"`python -m venv` failed:\n{made.stdout}{made.stderr}".rstrip())


def wanted(*, dev: bool) -> str:
    """Return the stamp of a finished installation: lock file, Python, and the place, since a venv cannot be moved."""
    lock = hashlib.sha256(LOCKS[dev].read_bytes()).hexdigest()
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{lock} python {version} {ROOT}\n"


def installed() -> str:
    """Return the stamp in `.venv`, or nothing."""
    try:
        return STAMP.read_text() if usable() else ""
    except OSError:
        return ""


def usable() -> bool:
    """Return whether `.venv` is of this Python and this place."""
    config = VENV / "pyvenv.cfg"
    if not config.exists() or not os.access(VENV / "bin" / "python", os.X_OK):
        return False
    told = dict(re.findall(r"^(\S+) = (.*)$", config.read_text(), re.MULTILINE))
    here = str(VENV) in told.get("command", str(VENV))
    return here and told.get("version", "") == ".".join(map(str, sys.version_info[:3])) and pip_answers()


def pip_answers() -> bool:
    """Return whether the venv was made to its end (Debian makes one without pip where a package lacks)."""
    return any((VENV / "lib").glob("python3*/site-packages/pip/__main__.py"))


def check() -> None:
    """Name what is missing on this machine, or return."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        raise SetupFailed(
            f"{sys.executable} has no venv module. On Debian and Ubuntu `apt-get install {name}-venv` (or "
            "python3-venv) brings it; elsewhere install a complete Python ≥ 3.11."
        )
    free = shutil.disk_usage(ROOT).free
    if free < ROOM:
        raise SetupFailed(
            f"{free / 1e9:.1f} GB are free on the disk of {ROOT}, {ROOM / 1e9:.1f} GB are needed. Free some, or put "
            "the checkout on another disk."
        )
    if not os.access(ROOT, os.W_OK):
        raise SetupFailed(f"{ROOT} cannot be written to by this user. Clone it as the user who runs it.")


def install(lock: Path) -> None:
    """Install a lock file with pip, hashes checked, one line of progress a package."""
    total = len(re.findall(r"^[\w.-]+==", lock.read_text(), re.MULTILINE))
    print(f"Installing {lock.name}: up to {total} packages; a few minutes the first time …", flush=True)
    options = ["--require-hashes", "--no-deps", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", *options, "--requirement", str(lock)]
    last: deque[str] = deque(maxlen=15)
    done = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout or ():
            last.append(line.rstrip())
            if found := re.match(r"Collecting ([\w.-]+)==([^\s;]+)", line):
                done += 1
                print(f"  {done:3}/{total}  {found[1]} {found[2]}", flush=True)
            elif line.startswith("Installing collected packages"):
                print("  unpacking …", flush=True)
    if pip.returncode:
        raise SetupFailed("pip said:\n  " + "\n  ".join(last))
    print("Installed.", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
