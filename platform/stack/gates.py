"""Every gate of style and architecture, cheap ones first: `python -m stack.gates`.

Stops at the first that fails; with `--all` goes on and fails at the end.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One check: a command that fails where the tree is not as it should be."""

    name: str
    command: tuple[str, ...]
    seconds: int = 120


def gates() -> tuple[Gate, ...]:
    """Return the gates in their order."""
    python, manage = sys.executable, (sys.executable, "manage.py")
    templates = tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "templates").rglob("*.html")))
    plain = ("-p", "no:django", "-p", "no:cacheprovider", "--override-ini", "addopts=--strict-markers --strict-config")
    rules = (python, "-m", "pytest", "-q", *plain, "tests/admission")
    gates = [
        Gate(name="format", command=(python, "-m", "ruff", "format", "--check", "-q")),
        Gate(name="ruff", command=(python, "-m", "ruff", "check", "-q")),
        Gate(name="djade", command=(str(BIN / "djade"), "--target-version", "5.2", "--check", *templates)),
        Gate(name="djlint", command=(python, "-m", "djlint", "--lint", "--quiet", *templates)),
        Gate(name="mypy", command=(python, "-m", "mypy"), seconds=600),
        Gate(name="import contracts", command=(str(BIN / "lint-imports"), "--no-cache")),
        Gate(name="django check", command=(*manage, "check", "--deploy", "--fail-level", "WARNING")),
        Gate(name="migrations", command=(*manage, "makemigrations", "--check", "--dry-run")),
        Gate(name="rules without Django", command=rules, seconds=300),
    ]
    return tuple(gate for gate in gates if templates or gate.name not in {"djade", "djlint"})


def environment() -> dict[str, str]:
    """Return what a careful deployment would set; no gate speaks to a database."""
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}",
        "TIDEGATE_SECRET_KEY": "of-the-gates-only-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 2,
        "TIDEGATE_ALLOWED_HOSTS": "tidegate.example",
        "TIDEGATE_HTTPS": "1",
    }


def passes(gate: Gate) -> bool:
    """Run a gate and say how it went."""
    start = time.monotonic()
    print(f"{gate.name:<22}", end="", flush=True)
    try:
        done = subprocess.run(
            gate.command,
            check=False,
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=gate.seconds,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        print(f"took longer than {gate.seconds} s")
        return False
    print(f"{'FAILED' if done.returncode else 'ok'}  {time.monotonic() - start:.1f} s", flush=True)
    if done.returncode:
        print(f"{done.stdout}{done.stderr}\n$ {' '.join(gate.command)[:400]}", flush=True)
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Run the gates and return the exit code."""
    failed = 0
    for gate in gates():
        failed += not passes(gate)
        if failed and "--all" not in arguments:
            break
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
