"""Try mutants of the rules in this process: each in a fork, against the tests that reach it, quick ones first."""

import argparse
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

import pytest
from mutmut.mutation.file_mutation import mutate_file_contents

from tests.mutation.switch import SWITCH, Name, function_of

ROOT = Path(__file__).parent.parent.parent
TESTS = ("tests/admission", "tests/simulation/test_scenarios.py")
OPTIONS = ("-q", "-s", "-p", "no:django", "-p", "no:cacheprovider", "-p", "no:randomly")
WRAPPER = "from mutmut.mutation.trampoline import wrap_in_trampoline as _mutmut_mutated, MutantDict"
OURS = "from tests.mutation.switch import choose as _mutmut_mutated, Mutants as MutantDict"
SECONDS = 20
"""Processor time after which a mutant counts as one that never ends."""


class Mutated(SourceFileLoader):
    """Loads a module with all its mutants in it."""

    def __init__(self, module: str) -> None:
        """Mutate the module's text."""
        path = ROOT / "queues" / "admission" / f"{module}.py"
        super().__init__(f"queues.admission.{module}", str(path))
        self.short = module
        file = mutate_file_contents(str(path), path.read_text())
        self.mutants, self._text = list(file.mutant_names), file.code.replace(WRAPPER, OURS)

    def get_code(self, _fullname: str) -> CodeType:
        """Return the mutated module, past every cache."""
        return compile(self._text, self.path, "exec")


class Finder(MetaPathFinder):
    """Finds the mutated modules before anything else does."""

    def __init__(self, loaders: Sequence[Mutated]) -> None:
        """Remember them."""
        self._loaders = {loader.name: loader for loader in loaders}

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return a mutated module."""
        loader = self._loaders.get(name)
        return spec_from_file_location(name, loader.path, loader=loader) if loader else None


class Runner:
    """A test session that runs its tests once, and then again for each mutant."""

    def __init__(self, mutants: Sequence[Name], slowest: float, share: int) -> None:
        """Remember what to try; tests that take longer than ``slowest`` seconds are left out."""
        self.found: Counter[Name] = Counter()
        self._mutants, self._slowest, self._share, self._failed = mutants, slowest, share, ""

    def pytest_configure(self) -> None:
        """Let properties try fewer examples, and stop at the first that fails."""
        # Not sooner: pytest rewrites what these import.
        from hypothesis import Phase, settings  # noqa: PLC0415

        from tests import examples  # noqa: PLC0415

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutation", deadline=None, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutation")
        examples.examples = lambda count: max(1, count // self._share)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notice a failure."""
        if report.failed:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each mutant."""
        cost, reach = self._unchanged(session.items)
        quick = [item for item in session.items if cost[item] <= self._slowest]
        quick.sort(key=lambda item: cost[item])
        say(f"\n{len(quick)} of {len(cost)} tests, {sum(cost[item] for item in quick):.1f} s of processor time")
        for module, mutant in self._mutants:
            items = [item for item in quick if (module, function_of(mutant)) in reach[item]]
            result = self._try(module, mutant, items) if items else "unreached"
            self.found[module, result] += 1
            if result != "killed":
                say(f"{result} {module.rpartition('.')[2]} {mutant}")
        return True

    def _unchanged(self, items: Sequence[pytest.Item]) -> tuple[dict[pytest.Item, float], dict[pytest.Item, set[Name]]]:
        """Return what each test costs and which functions it calls; all must pass."""
        cost, reach = {}, {}
        for item in items:
            SWITCH.called, begin = set(), time.process_time()
            self._run(item)
            cost[item], reach[item] = time.process_time() - begin, SWITCH.called
            if self._failed:
                raise pytest.UsageError(f"{self._failed} fails without a mutant")
        return cost, reach

    def _run(self, item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def _try(self, module: str, mutant: str, items: Sequence[pytest.Item]) -> str:
        """Run these tests in a fork until one fails; a mutant that never ends is stopped and counts as killed."""
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            SWITCH.on(module, mutant)
            for item in items:
                self._run(item)
                if self._failed:
                    os._exit(1)
            os._exit(0)
        return "killed" if os.waitpid(child, 0)[1] else "survived"


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="+", help="modules of queues/admission, such as quota")
    parser.add_argument("--sample", type=int, default=10**6, help="only so many mutants of each, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", nargs="*", default=[""], help="only mutants whose names end so")
    parser.add_argument("--within", nargs="*", default=[""], help="only mutants of functions whose names end so")
    parser.add_argument("--share", type=int, default=4, help="properties try one in so many of their examples")
    parser.add_argument("--slowest", type=float, default=1.0, help="leave out tests that take more seconds")
    parser.add_argument("-k", default="", help="only tests whose names match, as pytest has it")
    asked = parser.parse_args()
    mutated = [Mutated(module) for module in asked.modules]
    sys.meta_path.insert(0, Finder(mutated))
    chosen = {}
    for each in mutated:
        names = [
            name
            for name in each.mutants
            if name.endswith(tuple(asked.only)) and function_of(name).endswith(tuple(asked.within))
        ]
        drawn = random.Random(asked.seed).sample(names, min(asked.sample, len(names)))
        chosen[each.name] = sorted(drawn, key=names.index)
    runner = Runner([(name, row) for name, rows in chosen.items() for row in rows], asked.slowest, asked.share)
    options = [*OPTIONS, "--override-ini", "addopts=--strict-markers", "-k", asked.k]
    code = pytest.main([*options, *TESTS], plugins=[runner])
    say("\n| module | mutants | run | killed | survived | unreached |\n|---|---|---|---|---|---|")
    for each in mutated:
        counts = [runner.found[each.name, result] for result in ("killed", "survived", "unreached")]
        row = [each.short, len(each.mutants), len(chosen[each.name]), *counts]
        say(f"| {' | '.join(str(cell) for cell in row)} |")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
