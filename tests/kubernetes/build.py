"""Builds the test control plane and operators from published Go modules: ``python -m tests.kubernetes.build``."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TOOLS = ROOT / ".tools"

OLDEST_GO = (1, 26)
PROGRESS_SECONDS = 15.0
_USUAL_PLACE = Path("/usr/local/go/bin/go")
_INSTALL = (
    "install Go 1.26 or newer from the Go project's downloads, or a golang package of your system that is new enough"
)
_BUILD = ("build", "-v", "-trimpath", "-buildvcs=false")
_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to build; ``gathers``: modules with folders of YAML that are copied beside it, or all there is."""

    name: str
    sources: Path | None = None
    usually: str = ""
    gathers: tuple[tuple[str, str], ...] = ()

    @property
    def binary(self) -> Path:
        """Return where it lies when it is built."""
        return TOOLS / self.name

    @property
    def stamp(self) -> Path:
        """Return the file that says of which sources it was made."""
        return TOOLS / f"{self.name}.stamp"

    @property
    def definitions(self) -> Path:
        """Return the folder with the YAML that it gathered."""
        return TOOLS / f"{self.name}.definitions"


CONTROL_PLANE = Program(name="controlplane", sources=HERE / "controlplane", usually="6 minutes")
OPERATORS = Program(
    name="operators",
    sources=HERE / "operators",
    usually="2 minutes",
    gathers=(
        ("sigs.k8s.io/jobset@v0.11.1", "config/components/crd/bases"),
        ("sigs.k8s.io/jobset@v0.11.1", "config/components/webhook"),
        ("github.com/kubeflow/trainer/v2@v2.0.0", "manifests/base/crds"),
        ("github.com/kubeflow/training-operator@v1.8.1", "manifests/base/crds"),
        ("github.com/ray-project/kuberay/ray-operator@v1.5.0", "config/crd/bases"),
    ),
)
# Its definition has the name of the training operator's, in another version: a cluster has one of them.
MPI_OPERATOR = Program(name="mpi-operator", gathers=(("github.com/kubeflow/mpi-operator@v0.8.0", "manifests/base"),))
PROGRAMS: tuple[Program, ...] = (CONTROL_PLANE, OPERATORS, MPI_OPERATOR)


class BuildError(Exception):
    """Why there is no control plane, in one line where the remedy is known."""


def build() -> tuple[Path, ...]:
    """Return the binaries, each built anew where its sources have changed since."""
    TOOLS.mkdir(exist_ok=True)
    with _only_one():
        for program in PROGRAMS:
            if not is_current(program):
                go = _go()
                if program.sources is not None:
                    _compile(go, program, program.sources)
                _gather(go, program)
                program.stamp.write_text(_fingerprint(program))
    return tuple(program.binary for program in PROGRAMS if program.sources is not None)


def is_current(program: Program) -> bool:
    """Tell whether the binary is there and made of the sources as they are."""
    stamp, made = program.stamp, program.definitions if program.sources is None else program.binary
    return made.exists() and stamp.exists() and stamp.read_text() == _fingerprint(program)


def _fingerprint(program: Program) -> str:
    digest = hashlib.sha256()
    if sources := program.sources:
        for source in (*sorted(sources.glob("*.go")), sources / "go.mod", sources / "go.sum"):
            digest.update(source.read_bytes())
    digest.update(" ".join((*_BUILD, *(part for pair in program.gathers for part in pair))).encode())
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
    found = _output(program, HERE, "env", "GOVERSION", GOTOOLCHAIN="local")
    version = re.fullmatch(r"go(\d+)\.(\d+).*", found)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_GO:
        raise BuildError(f"{program} is {found or 'unreadable'}, too old: {_INSTALL}")
    return program


def _compile(go: str, program: Program, sources: Path) -> None:
    """Run go build into a file of its own, which takes the binary's place at the end."""
    begun = time.monotonic()
    _say(f"building {program.name} for tests on Kubernetes, once; about {program.usually} on 2 cores")
    unfinished = TOOLS / f"{program.name}.{os.getpid()}"
    command = [go, *_BUILD, "-ldflags", _flags(go, program, sources), "-o", str(unfinished), "."]
    try:
        _watch(command, sources, begun)
        unfinished.replace(program.binary)
    finally:
        unfinished.unlink(missing_ok=True)
    _say(f"built {program.name} in {_duration(begun)}")


def _gather(go: str, program: Program) -> None:
    """Copy the YAML that modules bring into one folder, flat."""
    if not program.gathers:
        return
    program.definitions.mkdir(exist_ok=True)
    for module, folder in program.gathers:
        found = json.loads(_output(go, HERE / "definitions", "mod", "download", "-json", module))
        for source in sorted((Path(found["Dir"]) / folder).glob("*.yaml")):
            (program.definitions / source.name).write_bytes(source.read_bytes())


def _watch(command: list[str], sources: Path, begun: float) -> None:
    """Run a build and tell how far it is, now and then, also while it links in silence."""
    last: deque[str] = deque(maxlen=15)
    compiled = Counter[str]()
    with subprocess.Popen(
        command, cwd=sources, env=_environment(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
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


def _flags(go: str, program: Program, sources: Path) -> str:
    """Tell Kubernetes its version, which a program built inside its own repository would get from git."""
    plain = ("-s", "-w")
    if program.name != CONTROL_PLANE.name:
        return " ".join(plain)
    kubernetes = _output(go, sources, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    values = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join((*plain, *(f"-X {_VERSION}.{name}={value}" for name, value in values.items())))


def _output(go: str, folder: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [go, *arguments],
        cwd=folder,
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
    """Build, and print where the binaries are."""
    try:
        sys.stdout.write("".join(f"{binary}\n" for binary in build()))
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
