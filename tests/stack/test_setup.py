import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from stack import setup
from stack.setup import SetupFailed

ROOT = Path(__file__).resolve().parents[2]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty checkout with lock files of one package."""
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(setup, "STAMP", tmp_path / ".venv" / "tidegate-setup")
    locks = {False: tmp_path / "requirements.lock", True: tmp_path / "requirements-dev.lock"}
    for dev, lock in locks.items():
        lock.write_text(f"tool{dev}==1.0 \\\n    --hash=sha256:00\n")
    monkeypatch.setattr(setup, "LOCKS", locks)
    return tmp_path


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lock files that would have been installed, into venvs that are made for show."""
    done: list[str] = []
    monkeypatch.setattr(setup, "install", lambda lock: done.append(lock.name))
    monkeypatch.setattr(setup, "make_venv", sham_venv)
    return done


def sham_venv() -> None:
    pip = setup.VENV / "lib" / "python3.11" / "site-packages" / "pip"
    pip.mkdir(parents=True)
    (pip / "__main__.py").touch()
    (setup.VENV / "bin").mkdir()
    (setup.VENV / "bin" / "python").symlink_to(sys.executable)
    version = ".".join(map(str, sys.version_info[:3]))
    (setup.VENV / "pyvenv.cfg").write_text(f"version = {version}\ncommand = python -m venv {setup.VENV}\n")


def test_a_lock_file_is_installed_once_until_it_changes(installs: list[str], place: Path) -> None:
    setup.setup(dev=False)
    setup.setup(dev=False)
    assert installs == ["requirements.lock"]

    (place / "requirements.lock").write_text("tool==2.0 --hash=sha256:00\n")
    setup.setup(dev=False)

    assert installs == ["requirements.lock"] * 2


@pytest.mark.usefixtures("place")
def test_what_development_installed_is_enough_to_run(installs: list[str]) -> None:
    setup.setup(dev=True)
    setup.setup(dev=False)

    assert installs == ["requirements-dev.lock"]


@pytest.mark.usefixtures("place")
def test_an_installation_that_was_cut_off_is_done_again(installs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(_lock: Path) -> None:
        raise KeyboardInterrupt

    working = setup.install
    monkeypatch.setattr(setup, "install", cut)
    assert setup.main([]) == 130
    monkeypatch.setattr(setup, "install", working)

    setup.setup(dev=False)

    assert installs == ["requirements.lock"]


def test_a_checkout_that_was_moved_gets_a_new_venv(
    installs: list[str], place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.setup(dev=False)
    moved = tmp_path_factory.mktemp("moved") / "checkout"
    shutil.copytree(place, moved, symlinks=True)
    monkeypatch.setattr(setup, "ROOT", moved)
    monkeypatch.setattr(setup, "VENV", moved / ".venv")
    monkeypatch.setattr(setup, "STAMP", moved / ".venv" / "tidegate-setup")

    setup.setup(dev=False)

    assert installs == ["requirements.lock"] * 2
    assert str(moved) in (moved / ".venv" / "pyvenv.cfg").read_text()


def test_a_venv_is_made_for_real(place: Path) -> None:
    setup.make_venv()

    assert setup.usable()
    assert (place / ".venv" / "bin" / "python").exists()


@pytest.mark.usefixtures("place")
def test_a_python_without_venv_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)

    with pytest.raises(SetupFailed, match=r"has no venv module.*apt-get install python3\.\d+-venv"):
        setup.setup(dev=False)


@pytest.mark.usefixtures("place")
def test_a_full_disk_is_named_with_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(10**10, 10**10, 287 * 10**6))

    code = setup.main([])

    assert code == 1
    assert "0.3 GB are free" in capsys.readouterr().err
    assert not setup.VENV.exists()


def test_a_package_that_cannot_be_had_shows_what_pip_said(place: Path) -> None:
    (place / "requirements.lock").write_text("-r nowhere.lock\n")

    with pytest.raises(SetupFailed, match=r"pip said:\n(?s:.*)nowhere"):
        setup.setup(dev=False)

    assert not setup.STAMP.exists()


def make(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run make in a copy of the checkout's Makefile, with only ``folder`` and make's own needs on the PATH."""
    shutil.copy(ROOT / "Makefile", folder / "Makefile")
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("sh", "awk", "make", "echo", "env"):
        if not (tools / name).exists() and (found := shutil.which(name)):
            (tools / name).symlink_to(found)
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")} | {"PATH": str(tools)}
    return subprocess.run(
        [str(tools / "make"), *arguments], cwd=folder, env=env, check=False, capture_output=True, text=True, timeout=60
    )


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_make_without_a_new_enough_python_says_which_one_it_found_and_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "python3", 'case "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac')

    done = make(tmp_path, "run")

    assert done.returncode != 0
    assert "needs Python 3.11 or newer; found: Python 3.9.2" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_make_without_any_python_says_so(tmp_path: Path) -> None:
    done = make(tmp_path, "setup")

    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr


def test_make_takes_a_newer_python_where_the_first_one_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "python3", "exit 1")
    script(tmp_path / "bin" / "python3.12", 'case "$1" in -c) exit 0;; *) echo "ran with $0 $*";; esac')

    done = make(tmp_path, "setup")

    assert "python3.12 -m stack.setup --dev" in done.stdout


def test_make_alone_lists_what_it_can_do(tmp_path: Path) -> None:
    done = make(tmp_path)

    assert done.returncode == 0
    for target in ("setup", "run", "test", "test-kubernetes", "lint", "clean"):
        assert f"make {target} " in done.stdout
