"""The build's own behaviour, with a Go that pretends."""

import fcntl
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clusters.waiting import until
from tests.kubernetes import build

GOOD = """
case "$1" in
env) echo go1.26.8 ;;
list) echo v1.37.2 ;;
build) echo "$@" >> "{log}"; while [ "$1" != -o ]; do shift; done; echo made > "$2" ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the build at a folder of the test's own, with no Go anywhere."""
    tools, sources, path = (tmp_path / name for name in ("tools", "sources", "bin"))
    for folder in (sources, path):
        folder.mkdir()
    (sources / "main.go").write_text("package main")
    (sources / "go.mod").write_text("module x")
    (sources / "go.sum").write_text("")
    monkeypatch.setattr(build, "TOOLS", tools)
    program = build.Program(name="controlplane", sources=sources, usually="a moment")
    monkeypatch.setattr(build, "PROGRAMS", (program,))
    monkeypatch.setattr(build, "_USUAL_PLACE", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", str(path), prepend=None)
    return tmp_path


def install(place: Path, script: str) -> None:
    go = place / "bin" / "go"
    go.write_text("#!/bin/sh\n" + script.replace("{log}", str(place / "log")))
    go.chmod(0o755)


def builds(place: Path) -> int:
    log = place / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_missing_go_is_named_with_what_installs_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.exists()

    code = build.main()

    said = capsys.readouterr().err
    assert code == 1
    assert said.startswith("control plane: Go is missing: install Go 1.26")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("version", ["go1.25.9", "go1.19", "devel", ""])
def test_a_go_that_is_too_old_is_named_with_its_version(place: Path, version: str) -> None:
    install(place, f'echo "{version}"')

    with pytest.raises(build.BuildError, match=f"{version or 'unreadable'}, too old: install Go 1.26"):
        build.build()


def test_it_is_built_once_and_again_when_a_source_changes(place: Path) -> None:
    install(place, GOOD)

    (program,) = build.PROGRAMS
    (binary,) = build.build()
    assert binary.read_text() == "made\n"
    build.build()
    assert builds(place) == 1
    (place / "sources" / "go.sum").write_text("changed")
    assert not build.is_current(program)
    build.build()
    assert builds(place) == 2


def test_definitions_that_modules_bring_lie_beside_the_program(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "module" / "crds").mkdir(parents=True)
    (place / "module" / "crds" / "a.yaml").write_text("kind: A")
    download = f"""mod) echo '{{"Dir": "{place / "module"}"}}' ;;\nesac"""
    install(place, GOOD.replace("esac", download))
    program = replace(build.PROGRAMS[0], gathers=(("example/module@v1.0.0", "crds"),))
    monkeypatch.setattr(build, "PROGRAMS", (program,))

    build.build()

    assert (program.definitions / "a.yaml").read_text() == "kind: A"
    assert not build.is_current(replace(program, gathers=()))


def test_a_build_that_fails_leaves_nothing_and_shows_its_end(place: Path) -> None:
    install(place, GOOD.replace('echo made > "$2"', "echo no space left on device >&2; exit 1"))

    with pytest.raises(build.BuildError, match="no space left on device"):
        build.build()

    assert not build.is_current(build.PROGRAMS[0])
    assert [path.name for path in build.TOOLS.iterdir()] == ["controlplane.lock"]


def test_progress_is_told_while_it_builds(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "PROGRESS_SECONDS", 0.05)
    install(place, GOOD.replace("build)", "build) echo k8s.io/api >&2; /bin/sleep 0.4;"))

    build.build()

    said = capsys.readouterr().err
    assert "1 packages compiled" in said
    assert "built controlplane in" in said


def test_a_second_build_waits_for_the_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(place, GOOD)
    build.TOOLS.mkdir()
    with (build.TOOLS / "controlplane.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=build.build)
        second.start()
        until(lambda: "another build is running" in capsys.readouterr().err)
        assert builds(place) == 0

    second.join(60)

    assert builds(place) == 1
