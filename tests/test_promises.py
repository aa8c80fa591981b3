"""The tests that the documents name for faults and promises are there, and run where the documents say."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text()


def test_each_test_that_the_table_of_faults_names_is_there_and_runs_where_it_says() -> None:
    section = text("docs/operations.md").split("## Faults")[1].split("\n## ")[0]
    rows = [row.strip("| \n").split(" | ") for row in section.splitlines() if "`test_" in row]
    recovery = {path: path.read_text() for path in (ROOT / "tests" / "recovery").glob("test_*.py")}
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}

    missing = [row[3] for row in rows if not any(f"def {row[3].strip('`')}(" in source for source in sources.values())]
    wrong = [row[3] for row in rows for source in recovery.values() if not _runs_there(source, *row[3:5])]

    assert len(rows) >= 30
    assert all(len(row) == 5 for row in rows)
    assert missing == []
    assert wrong == []


def test_each_test_that_the_list_of_promises_about_kubernetes_names_is_there_and_runs_where_it_says() -> None:
    rows = [row.strip("| \n").split(" | ") for row in text("docs/kubernetes.md").splitlines() if "::test_" in row]
    named = [(*found, row[2]) for row in rows for found in re.findall(r"`([\w/.]+)::(test_\w+)`", row[1])]
    sources = {path: text(f"tests/{path}") for path, _, _ in named}

    assert len(rows) >= 60
    assert all(len(row) == 3 for row in rows)
    assert [(path, name) for path, name, _ in named if f"def {name}(" not in sources[path]] == []
    assert [(path, name, on) for path, name, on in named if not _is_played(path, sources[path], name, on)] == []


def _is_played(path: str, source: str, name: str, places: str) -> bool:
    """Whether a test plays on the emulator and the control plane as its row says, as far as its folder tells."""
    told = set(places.split()) & {"E", "K"}
    match path.split("/")[:2]:
        case ["recovery", "test_two_clusters.py"] | ["clusters", "contract"]:
            return told == {"E", "K"}
        case ["recovery", _]:
            return _runs_there(source, name, places)
        case ["kubernetes", _]:
            return told == {"K"}
        case _:
            return True


def _runs_there(source: str, name: str, places: str) -> bool:
    """Whether a test of these asks for the fixture that plays on the emulator, on the control plane, or on both."""
    head = re.search(rf"((?:@.*\n|    .*\n|\)\n)*)def {name.strip('`')}\(([^)]*)\)", source)
    if head is None:
        return True
    told = set(places.split()) & {"E", "K"}
    if "indirect=True" in head[1]:
        return told == {"E"}
    return told == ({"E", "K"} if re.search(r"\bscene:|\bimpatient:", head[2]) else {"K"})
