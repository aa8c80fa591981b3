"""The side-by-side bench on a real control plane: ours and, where its controller is at hand, Kueue in the same run."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from queues.benchmarks.results import NoTrace, Result, Setting

OURS = "queues.benchmarks.beside:Tidegate"
SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One load: the driver's arguments, the bound and our target for the makespan in seconds, Kueue's as published.

    ``scale`` or ``jobs`` say how large it is: a part has so many times fewer jobs, at the same times.
    """

    name: str
    arguments: tuple[str, ...]
    bound: str
    target: int
    peer: str
    evictions: int
    scale: float | None = None
    jobs: int | None = None

    def size(self, part: int) -> tuple[str, ...]:
        """Return the driver's arguments for how large the load is."""
        if self.scale is not None:
            return ("--scale", f"{self.scale / part:g}")
        return ("--jobs", str(max(1, (self.jobs or 1) // part)))


CASES = (
    Case(name="calm", arguments=("baseline", "--stretch", "50"), scale=0.02, bound="110 s", target=115,
         peer="Kueue 135 s", evictions=31),
    Case(name="drain", arguments=("drain",), bound="20 s", target=28, peer="Kueue 42 s", evictions=0, jobs=500),
    Case(name="burst", arguments=("burst",), bound="7-12 s (no queueing)", target=20, peer="Kueue 32.9 s", evictions=0,
         jobs=1000),
    Case(name="base", arguments=("baseline", "--stretch", "1"), scale=0.1, bound="7 s", target=60,
         peer="Kueue 133 s", evictions=295),
    Case(name="stretch", arguments=("baseline", "--stretch", "10"), scale=0.1, bound="70 s", target=90,
         peer="Kueue 278 s", evictions=343),
)  # fmt: skip


def side_by_side(setting: Setting) -> Iterator[Result]:
    """Play calm, drain, burst, base and stretch live: REST, PostgreSQL, Celery, Jobs, pretended kubelets; Kueue beside.

    SIDEBYSIDE names the bench's folder, CONTROLPLANE the binary that it was built with, KUEUE Kueue's controller (left
    out: only ours), CASES some of the cases.
    """
    bench, plane = _path("SIDEBYSIDE", "sidebyside.py"), _path("CONTROLPLANE", "")
    cases = {case.name: case for case in CASES}
    wanted = os.environ.get("CASES", "").split() or list(cases)
    if unknown := [name for name in wanted if name not in cases]:
        raise NoTrace(f"there is no case {unknown[0]}: there are {', '.join(cases)}")
    for case in (cases[name] for name in wanted):
        if os.environ.get("KUEUE"):
            beside = _play(bench, plane, case, setting, "--system", "kueue", "--controller", os.environ["KUEUE"],
                           "--qps", "500", "--burst", "1000")  # fmt: skip
            yield from _results(case, "kueue", beside)
        yield from _results(case, "tidegate", _play(bench, plane, case, setting, "--system", OURS))


def _path(name: str, inside: str) -> Path:
    path = Path(os.environ.get(name, "")) / inside
    if not os.environ.get(name) or not path.exists():
        raise NoTrace(f"needs {name}: see docs/benchmarks.md")
    return path.resolve()


def _play(bench: Path, plane: Path, case: Case, setting: Setting, *system: str) -> dict[str, object]:
    """Run the bench's own driver once; return what it wrote."""
    with tempfile.TemporaryDirectory(prefix="tidegate-beside-", ignore_cleanup_errors=True) as folder:
        limits = ("--timeout", str(SECONDS / 2), "--wait-quiet", os.environ.get("WAIT_QUIET", "0"))
        where = ("--controlplane", str(plane), "--out", folder)
        path = os.pathsep.join((str(settings.BASE_DIR / "platform"), str(settings.BASE_DIR)))
        done = subprocess.run(  # noqa: S603  the bench that was named
            [sys.executable, str(bench), *case.arguments, *case.size(setting.part), *limits, *where, *system],
            check=False,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        found = [each for each in Path(folder).glob("*.json") if not each.name.startswith("state")]
        if not found:
            raise RuntimeError(f"{case.name} gave no result:\n{done.stderr[-2000:]}")
        text = found[0].read_text()
        if keep := os.environ.get("KEEP"):
            (Path(keep) / f"{case.name}-{found[0].name}").write_text(text)
        report: dict[str, object] = json.loads(text)
        return report


def _results(case: Case, system: str, report: dict[str, object]) -> Iterator[Result]:
    ours = system == "tidegate"

    def result(key: str, value: object, unit: str, *, limit: str = "-", target: str = "-", peer: str = "-") -> Result:
        number = float(str(value)) if value is not None else float("nan")
        name = f"side-by-side/{case.name}/{system}/{key}"
        return Result(name=name, value=number, unit=unit, limit=limit, target=target if ours else "-", peer=peer)

    use, jobs = report["use"], report["jobs"]
    if not (isinstance(use, dict) and isinstance(jobs, int)):
        raise TypeError("this is no report of the bench")
    requests = float(str(report["api_requests_total"])) / jobs
    yield result("complete", int(report["complete"] is True), "(1: all ended)", target="1")
    yield result("makespan", report["makespan_s"], "s", limit=case.bound, target=f"<= {case.target} s", peer=case.peer)
    yield result("all-admitted", report["until_all_admitted_s"], "s")
    yield result("all-running", report["until_all_running_s"], "s")
    yield result("evictions", report["evictions"], "", target=f"<= {case.evictions // 10}", peer=str(case.evictions))
    yield result("requests", requests, "API requests a job", target="<= 10")
    yield result("cpu", use["cpu_s_total"], "CPU s of all")
    yield result("load", use["load1_mean"], "load average")
