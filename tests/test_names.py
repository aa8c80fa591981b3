import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLATFORM = ROOT / "platform"


def first_party() -> set[str]:
    """Return the names that both source roots give to packages."""
    in_platform = {each.name for each in PLATFORM.iterdir() if each.is_dir() and not each.name.startswith((".", "_"))}
    in_root = {each.parent.name for each in ROOT.glob("*/__init__.py")}
    return in_platform | in_root


def test_import_platform_is_pythons_own_from_the_root_of_the_repository() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    code = "import platform; print(platform.python_version())"

    for more in ({}, {"PYTHONPATH": "platform"}, {"PYTHONPATH": f".{os.pathsep}platform"}):
        found = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment | more, capture_output=True, text=True, check=False
        )
        assert (found.returncode, found.stderr) == (0, "")
        assert found.stdout.strip() == ".".join(map(str, sys.version_info[:3]))


def test_the_folder_platform_has_packages_only() -> None:
    assert [each.name for each in PLATFORM.iterdir() if each.suffix == ".py"] == []
    assert not (PLATFORM / "__init__.py").exists()
    assert {"config", "clusters", "stack", "queues", "tenants"} <= first_party()


def test_no_name_of_ours_hides_another() -> None:
    assert first_party() & set(sys.stdlib_module_names) == set()
    assert first_party() & set(packages_distributions()) <= {"tests"}
