"""Builds the test control plane from published Go modules: ``python -m tests.kubernetes.build``."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "controlplane"
TOOLS = ROOT / ".tools"
BINARY = TOOLS / "controlplane"
STAMP = TOOLS / "controlplane.stamp"

OLDEST_GO = (1, 26)
PROGRESS_SECONDS = 15.0
_USUAL_PLACE = Path("/usr/local/go/bin/go")
_INSTALL = (
    "install Go 1.26 or newer from the Go project's downloads, or a golang package of your system that is new enough"
)
_BUILD = ("build", "-v", "-trimpath", "-buildvcs=false")
_VERSION = "k8s.io/component-base/version"


class BuildError(Exception):
    """Why there is no control plane, in one line where the remedy is known."""


def build() -> Path:
    """Return the control plane's binary, built anew where its sources have changed since."""
    TOOLS.mkdir(exist_ok=True)
    with _only_one():
        if not is_current():
            _compile(_go())
            STAMP.write_text(_fingerprint())
    return BINARY


def is_current() -> bool:
    """Tell whether the binary is there and made of the sources as they are."""
    return BINARY.exists() and STAMP.exists() and STAMP.read_text() == _fingerprint()


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in (*sorted(SOURCES.glob("*.go")), SOURCES / "go.mod", SOURCES / "go.sum"):
        digest.update(source.read_bytes())
    digest.update(" ".join(_BUILD).encode())
    return digest.hexdigest()


@contextmanager
def _only_one() -> Iterator[None]:
    """Let one build go on at a time; the lock goes with its process."""
    with (TOOLS / "controlplane.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _go() -> str:
    """Return a Go that is new enough, or say what installs one."""
    program = shutil.which("go") or (str(_USUAL_PLACE) if _USUAL_PLACE.exists() else None)
    if program is None:
        raise BuildError(f"Go is missing: {_INSTALL}")
    # Without GOTOOLCHAIN=local an older Go would try to fetch a newer one by itself.
    found = _output(program, "env", "GOVERSION", GOTOOLCHAIN="local")
    version = re.fullmatch(r"go(\d+)\.(\d+).*", found)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_GO:
        raise BuildError(f"{program} is {found or 'unreadable'}, too old: {_INSTALL}")
    return program


def _compile(go: str) -> None:
    """Run go build into a file of its own, which takes the binary's place at the end."""
    begun = time.monotonic()
    _say("building the Kubernetes control plane for tests, once; about 6 minutes on 2 cores")
    kubernetes = _module_version(go)
    unfinished = TOOLS / f"controlplane.{os.getpid()}"
    command = [go, *_BUILD, "-ldflags", _flags(kubernetes), "-o", str(unfinished), "."]
    try:
        _watch(command, begun)
        unfinished.replace(BINARY)
    finally:
        unfinished.unlink(missing_ok=True)
    _say(f"built Kubernetes {kubernetes} in {_duration(begun)}")


def _watch(command: list[str], begun: float) -> None:
    """Run a build and tell how far it is, now and then, also while it links in silence."""
    last: deque[str] = deque(maxlen=15)
    compiled = Counter[str]()
    with subprocess.Popen(
        command, cwd=SOURCES, env=_environment(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        reader = Thread(target=_read, args=(process.stderr or (), last, compiled))
        reader.start()
        try:
            while _runs(process):
                counts = f"{compiled['downloads']} modules fetched, {compiled['packages']} packages compiled"
                _say(f"{counts}, {_duration(begun)}")
        finally:
            # Nothing to a build that has ended; one that was interrupted does not go on alone.
            process.terminate()
            reader.join()
    if process.returncode:
        raise BuildError(f"go build ended with {process.returncode}:\n{''.join(last)}")


def _read(lines: Iterable[str], last: deque[str], compiled: Counter[str]) -> None:
    for line in lines:
        last.append(line)
        compiled["downloads" if line.startswith("go: downloading") else "packages"] += 1


def _runs(process: subprocess.Popen[str]) -> bool:
    try:
        process.wait(PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _module_version(go: str) -> str:
    return _output(go, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")


def _flags(kubernetes: str) -> str:
    """Tell the binary its version, which a program built inside Kubernetes' own repository would get from git."""
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    values = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(("-s", "-w", *(f"-X {_VERSION}.{name}={value}" for name, value in values.items())))


def _output(go: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [go, *arguments],
        cwd=SOURCES,
        env={**_environment(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"go {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0"}


def _duration(begun: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - begun), 60)
    return f"{minutes} min {seconds:02} s"


def _say(text: str) -> None:
    sys.stderr.write(f"control plane: {text}\n")
    sys.stderr.flush()


def main() -> int:
    """Build, and print where the binary is."""
    try:
        sys.stdout.write(f"{build()}\n")
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
