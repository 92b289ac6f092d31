"""Simulated tests in pytest: one world per test and seed, and a report of what went wrong in it.

    collection ─► one test per seed ─► set-up: SeededRun ─► its loop (a new world) ─► the test ─► is a promise broken?
                                                                                                   │ failed
                                                       report: script, trace, commands ◄───────────┘

1. Registered for the first simulated test: a project without simulated tests pays nothing.
2. A broken promise that was not reported to the test fails it, whatever else it has asserted.
3. `random` is seeded while the test itself runs, and is afterwards as it was before.
4. A world is kept only as long as its test runs, except the last one, if a trace or a diagram is to be written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator
from typing import Any, Final

import pytest
from _pytest.pathlib import bestrelpath

from ..errors import ScriptError
from . import report
from .chance import seeded_globals
from .files import OutputFiles
from .options import SimulationOptions, named_seeds, parse_options
from .run import Simulation
from .trace import Trace
from .world import DriverLoop, World, world_loop

SESSION: Final = "aiostorm-simulation"
SEED: Final = "_simulation_seed"
_FULL_REPORTS: Final = 3
"""So many failing seeds of one test are reported in full; for the others, only the commands."""


class SeededRun:
    """One test under one seed: its worlds, and the simulation in it."""

    def __init__(
        self, item: pytest.Item, seed: int, options: SimulationOptions, only: Collection[int] | None, whole: bool
    ) -> None:
        self.item = item
        self.seed = seed
        self.only = only
        self.worlds: list[World] = []
        self.simulation: Simulation | None = None
        self.failure: tuple[str, type[BaseException]] | None = None
        self._options = options
        self._whole = whole

    def make_loop(self) -> DriverLoop:
        """The loop of a new world."""
        loop = world_loop(self.seed, **self._options.world)
        if self._whole:
            loop.world.trace = Trace(kept=None)
        self.worlds.append(loop.world)
        return loop

    def simulate(self, world: World) -> Simulation:
        """Create the value of the fixture."""
        self.simulation = Simulation(world, self._options.faults, self.only)
        return self.simulation

    @property
    def world(self) -> World | None:
        """The world to report."""
        if self.simulation is not None:
            return self.simulation.world
        return max(self.worlds, key=lambda world: world.trace.count, default=None)

    @property
    def digest(self) -> str | None:
        """The same in every run of this seed and script."""
        world = self.world
        return world.trace.digest if world is not None else None

    def unreported(self) -> list[str]:
        """Broken promises that were not reported to the test."""
        return [problem for world in self.worlds for problem in world.problems.unreported]


class SimulationSession:
    """The simulated tests of one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.only: Collection[int] | None = config.option.simulation_only
        self.run: SeededRun | None = None
        self.note = ""
        self._seeds: int | None = config.option.simulation_seeds
        self.files = OutputFiles(config)
        self._last: World | None = None
        self._failed: Counter[str] = Counter()

    # -- collection --------------------------------------------------------------------------------------------------

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """One test per seed."""
        item = metafunc.definition
        options = self._options_of(item)
        seeds = dict.fromkeys((*options.seeds, *named_seeds(item.name, self.config.args)))
        metafunc.fixturenames.append(SEED)
        metafunc.parametrize(SEED, list(seeds), ids=[f"seed-{seed}" for seed in seeds], indirect=True)

    def simulates(self, item: pytest.Item) -> bool:
        """Is this one of the simulated tests?"""
        return _seed_of(item) is not None

    def make_loop(self) -> DriverLoop:
        """For pytest-asyncio: the loop of the test that is being set up."""
        assert self.run is not None
        return self.run.make_loop()

    def _options_of(self, item: pytest.Item) -> SimulationOptions:
        marker = item.get_closest_marker("simulate")
        assert marker is not None
        try:
            return parse_options(marker.args, marker.kwargs, self._seeds)
        except ScriptError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None

    # -- one test ----------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A run of its own, before any fixture."""
        self.run = None
        seed = _seed_of(item)
        if seed is not None:
            self.run = SeededRun(item, seed, self._options_of(item), self.only, self.files.wants(item.nodeid))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
        """Around the test itself: chance, and broken promises."""
        run = self._run_of(pyfuncitem)
        if run is None:
            return (yield)
        with seeded_globals(run.seed):
            result = yield
        unreported = run.unreported()
        if unreported:
            pytest.fail("broken promises:\n" + "\n".join(unreported), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """For a failing seed: what happened, and how to continue."""
        made = yield
        run = self._run_of(item)
        if run is not None and made.failed:
            if call.excinfo is not None:
                run.failure = (str(made.when), call.excinfo.type)
            made.sections.append(("simulation", self._report(run)))
            if not self.note:
                self.files.write(run.world, item.nodeid)
        return made

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        """Afterwards the world is dropped."""
        try:
            return (yield)
        finally:
            if self.run is not None and self.files.wants(self.run.item.nodeid):
                self._last = self.run.world
            self.run = None

    def pytest_sessionfinish(self) -> None:
        """No seed has failed: the last one is written."""
        if self.files.wants(""):
            self.files.write(self._last, "")

    def _run_of(self, item: pytest.Item) -> SeededRun | None:
        return self.run if self.run is not None and self.run.item is item else None

    # -- what is said ------------------------------------------------------------------------------------------------

    def _report(self, run: SeededRun) -> str:
        nodeid = _from_here(run.item)
        world, simulation = run.world, run.simulation
        test = nodeid.partition("[")[0]
        self._failed[test] += 1
        lines = [f"seed {run.seed}" + (f", order of what is ready: {world.order}" if world is not None else "")]
        if self._failed[test] <= _FULL_REPORTS or self.note:
            if simulation is not None and simulation.faults.drawn:
                lines += report.script_lines(simulation.faults.drawn, run.only)
            lines += run.unreported()
            if world is not None:
                lines += report.trace_lines(world.trace)
        if self.note:
            lines.append(self.note)
        shrinks = not self.note and simulation is not None and bool(simulation.faults.script)
        return "\n".join([*lines, *report.commands(nodeid, run.only, shrinks=shrinks)])


def _seed_of(item: pytest.Item) -> int | None:
    parametrized: Any = getattr(item, "callspec", None)
    return None if parametrized is None else parametrized.params.get(SEED)


def _from_here(item: pytest.Item) -> str:
    """The nodeid, relative to the directory in which pytest was started."""
    path, *names = item.nodeid.split("::")
    config = item.config
    return "::".join((bestrelpath(config.invocation_params.dir, config.rootpath / path), *names))
