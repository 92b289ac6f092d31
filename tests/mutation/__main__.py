"""How good are the tests of a module? `python -m tests.mutation acker/ledger.py`, from the root of the repository.

Each mutant is the module with one small change (mutants.py). Tests that fail with it *kill* it. A mutant that survives
shows a decision that no test checks: add the test, or, if no behaviour differs, a line to equivalent.toml with the
reason. First the tests run once without a change: this says which of them call which function, so that a mutant meets
only tests that can notice it, the fastest first. Other processes that tests start do not see the mutant.

cosmic-ray and mutmut do this, too. cosmic-ray changes the files of the checkout, one after the other, and starts a test
command for each mutant. mutmut 3 copies the sources into a folder of its own, rewrites every function, and takes the
names of modules from their places: ours are elsewhere (`package-dir`, links from aiostorm/<package>). Neither knows
which mutants are equivalent, and why. mutatest is not maintained. So this is our own: the changes, an import hook
(overlay.py), and a process that forks for each run (zygote.py).

Exit codes: 0, and 1 if less than 95 % of the mutants that are not equivalent were killed; 2 if nothing could be tested;
130 after Ctrl-C, which prints what was found so far.
"""

from __future__ import annotations

import argparse
import difflib
import os
import queue
import random
import sys
import tempfile
import threading
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .codes import BROKEN, NOT_SWAPPED, Answer, Order
from .mutants import Key, Mutant, mutants
from .table import paths_of
from .zygote import Zygote

GOAL: Final = 0.95
EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")
PASSED: Final = 0
LEAST_LIMIT_S: Final = 10.0


class CannotTestError(Exception):
    """The tests cannot say anything about this module."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Which tests call which functions (`FILE:FUNCTION`), the tests with the fastest first."""

    tests: Sequence[str]
    called: dict[str, frozenset[str]]
    took_s: dict[str, float]
    always: frozenset[str]

    @classmethod
    def of(cls, found: dict[str, Any]) -> Survey:
        """What the run without a change has found."""
        took_s = {test: took for test, (_, took) in found["tests"].items()}
        files: dict[str, list[str]] = {}
        for test in sorted(took_s, key=lambda test: took_s[test]):
            files.setdefault(test.partition("::")[0], []).append(test)
        # Files one after the other: a change of the file costs fixtures.
        in_order = sorted(files.values(), key=lambda tests: sum(took_s[t] for t in tests) / len(tests))
        called = {test: frozenset(functions) for test, (functions, _) in found["tests"].items()}
        return cls([test for tests in in_order for test in tests], called, took_s, frozenset(found["always"]))

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Tests that can notice the mutant. What runs at import, or is no function, concerns all tests."""
        if self.is_swapped(mutant):
            return [test for test in self.tests if f"{mutant.file}:{mutant.function}" in self.called[test]]
        return sorted(self.tests, key=lambda test: not self.calls(test, mutant.file))

    def calls(self, test: str, file: str) -> bool:
        """Does this test call a function of this module?"""
        return any(called.startswith(f"{file}:") for called in self.called[test])

    def is_swapped(self, mutant: Mutant) -> bool:
        """Is it inside a function that only tests call?"""
        return bool(mutant.function) and f"{mutant.file}:{mutant.function}" not in self.always


@dataclass(slots=True)
class Result:
    """What became of the mutants of a module."""

    file: str
    total: int
    tested: int
    killed: int = 0
    equivalent: int = 0
    timeouts: int = 0
    survivors: list[Mutant] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Killed, of those that are not equivalent."""
        counted = self.killed + len(self.survivors)
        return self.killed / counted if counted else 1.0


def equivalents() -> dict[Key, str]:
    """Mutants that no test can kill, by their key, with the reasons."""
    table = tomllib.loads(EQUIVALENT.read_text("utf-8"))
    return {
        (file, entry["function"], entry["before"], entry["after"], entry.get("occurrence", 0)): entry["why"]
        for file, entries in table.items()
        for entry in entries
    }


class Runner:
    """The two processes that fork for one thread; the second is started when it is needed."""

    def __init__(self, files: Sequence[str], paths: Sequence[str], folder: Path) -> None:
        self.collected = Zygote(folder, files, paths)
        self._folder = folder
        self._fresh: Zygote | None = None

    def run(self, order: Order, *, swapped: bool) -> Answer:
        """Run tests with a mutant."""
        if swapped:
            answer = self.collected.run(order)
            if answer.code != NOT_SWAPPED:
                return answer
        if self._fresh is None:
            self._fresh = Zygote(self._folder)
        return self._fresh.run(order)

    def close(self) -> None:
        """End both."""
        for zygote in (self.collected, self._fresh):
            if zygote is not None:
                zygote.close()


class Module:
    """The mutants of one module, and which of them are tested."""

    def __init__(self, file: str, options: argparse.Namespace, known: Collection[Key]) -> None:
        self.source = Path(file).read_text("utf-8")
        found = mutants(file, self.source)
        to_test = [mutant for mutant in found if mutant.key not in known]
        self.result = Result(file, len(found), 0, equivalent=len(found) - len(to_test))
        if options.line:
            to_test = [mutant for mutant in to_test if mutant.line in options.line]
        if options.sample and options.sample < len(to_test):
            chosen = random.Random(options.seed).sample(range(len(to_test)), options.sample)
            to_test = [to_test[at] for at in sorted(chosen)]
        self.to_test = to_test


class Run:
    """The mutants of modules that have the same tests, in several processes."""

    def __init__(
        self, modules: Sequence[Module], paths: Sequence[str], options: argparse.Namespace, folder: Path
    ) -> None:
        self._modules = {module.result.file: module for module in modules}
        self._paths, self._options, self._folder = paths, options, folder
        self._left: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        self._count = sum(len(module.to_test) for module in modules)
        self._lock = threading.Lock()
        self._runners: list[Runner] = []
        self._stopped = False
        self._errors: list[BaseException] = []

    def run(self) -> None:
        """Test all. Ctrl-C ends the processes, and is raised."""
        try:
            for _ in range(max(1, min(self._options.jobs, self._count))):
                self._runners.append(Runner(list(self._modules), self._paths, self._folder))
            survey = self._survey(self._runners[0])
            for module in self._modules.values():
                for mutant in module.to_test:
                    self._left.put(mutant)
            threads = [threading.Thread(target=self._work, args=(r, survey), daemon=True) for r in self._runners]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if self._errors:
                raise self._errors[0]
        finally:
            self._stopped = True
            for runner in self._runners:
                runner.close()

    def _survey(self, runner: Runner) -> Survey:
        self._say(f"{self._count} mutants to test; {' '.join(self._paths)} run once without a change")
        answer = runner.collected.run(Order(next(iter(self._modules))))
        if answer.code != PASSED:
            raise CannotTestError(f"the tests fail without a change:\n{answer.output}")
        survey = Survey.of(answer.survey)
        for file in self._modules:
            touching = sum(survey.calls(test, file) for test in survey.tests)
            self._say(f"{file}: {touching} of {len(survey.tests)} tests call it")
        return survey

    def _work(self, runner: Runner, survey: Survey) -> None:
        try:
            while not self._stopped:
                self._test(self._left.get_nowait(), runner, survey)
        except queue.Empty:
            return
        except BaseException as error:
            if not self._stopped:
                self._stopped = True
                self._errors.append(error)

    def _test(self, mutant: Mutant, runner: Runner, survey: Survey) -> None:
        chosen = survey.tests_for(mutant)
        code: int | None = PASSED
        if chosen:
            limit_s = self._options.limit or LEAST_LIMIT_S + 4 * sum(survey.took_s[test] for test in chosen)
            order = Order(mutant.file, mutant.source, mutant.function, chosen, limit_s)
            answer = runner.run(order, swapped=survey.is_swapped(mutant))
            code = answer.code
            if code == BROKEN:
                raise CannotTestError(f"{mutant.file}:{mutant.line}: a child has failed:\n{answer.output}")
        module = self._modules[mutant.file]
        with self._lock:
            result = module.result
            result.tested += 1
            if code == PASSED:
                result.survivors.append(mutant)
                self._say(f"{len(chosen)} tests pass with {difference(mutant, module.source)}", end="")
            else:
                result.killed += 1
                result.timeouts += code is None
            done, survive = f"[{result.tested}/{len(module.to_test)}]", len(result.survivors)
            self._say(f"{done} {result.file}: {result.killed} killed, {survive} survive")

    def _say(self, text: str, end: str = "\n") -> None:
        if not self._options.quiet:
            print(text, end=end, file=sys.stderr, flush=True)


def difference(mutant: Mutant, source: str) -> str:
    """Where the mutant is, and how it differs."""
    before, after = source.splitlines(keepends=True), mutant.source.splitlines(keepends=True)
    lines = [*difflib.unified_diff(before, after, n=0)][3:]
    return f"{mutant.file}:{mutant.line} {mutant.function}\n{''.join(lines)}"


def table(results: Sequence[Result]) -> str:
    """The figures of all modules."""
    names = ("module", "mutants", "equivalent", "tested", "killed", "of them by the limit", "survive", "share")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for r in results:
        figures = (r.total, r.equivalent, r.tested, r.killed, r.timeouts, len(r.survivors), f"{r.share:.1%}")
        lines.append(f"| {r.file} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "python -m tests.mutation", description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="a file, as acker/ledger.py")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many of a module's mutants (0: all)")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--line", type=int, action="append", help="only mutants of this line")
    parser.add_argument("--tests", action="append", metavar="PATH", help="these tests, in place of the table's")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (all cores)")
    parser.add_argument(
        "--limit", type=float, metavar="SECONDS", help="of CPU for a mutant (10, and four times its tests)"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, and test none")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the mutants of each module; print the survivors and a table."""
    given = options(arguments)
    if given.list:
        for file in given.modules:
            for mutant in mutants(file, Path(file).read_text("utf-8")):
                nth = f" occurrence {mutant.occurrence}" if mutant.occurrence else ""
                print(f"{file}:{mutant.line} {mutant.function}{nth}\n  - {mutant.before}\n  + {mutant.after}")
        return 0
    code, done = 0, []
    try:
        known = equivalents()
        groups: dict[tuple[str, ...], list[Module]] = {}
        for file in given.modules:
            groups.setdefault(tuple(given.tests or paths_of(file)), []).append(Module(file, given, known))
        with tempfile.TemporaryDirectory(prefix="mutation") as folder:
            for paths, modules in groups.items():
                done += modules
                Run(modules, paths, given, Path(folder)).run()
    except KeyboardInterrupt:
        code = 130
    except (CannotTestError, LookupError, OSError, SyntaxError, EOFError) as error:
        print(error, file=sys.stderr)
        code = 2
    results = [module.result for module in done]
    for module in done:
        for mutant in sorted(module.result.survivors, key=lambda mutant: mutant.line):
            print(difference(mutant, module.source))
    print(table(results))
    return code or int(any(result.share < GOAL for result in results))


if __name__ == "__main__":
    sys.exit(main())
