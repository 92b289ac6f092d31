"""The pytest plugin: virtual time for the tests that ask for it, and a cluster for tests.

It is loaded in every project that has aiostorm installed. So:

1. It imports pytest and pytest-asyncio only; the rest of aiostorm is imported by the fixtures that need it.
2. A test that asks for nothing (no fixture, no marker, no ini option) runs as it would without the plugin.
3. It works with pytest-asyncio's strict and auto mode, and has no effect where pytest-asyncio is not installed.

A test asks for virtual time by *using* `sim_clock` or `virtual_cluster` (directly or through other fixtures), by
`@pytest.mark.virtual_time`, or for the whole project by the ini option `aiostorm_virtual_time = true`; then tests
marked `sockets` are left out and run in real time, once on asyncio and once on uvloop where that is installed.

A test asks for a seeded world by `@pytest.mark.simulate` only (simulation/session.py), because a project may have its
own fixture with the name `simulation`.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import asyncio

    from ..cluster import LocalCluster
    from .clock import SimClock
    from .simulation import Simulation
    from .simulation.session import SimulationSession

    LoopFactories = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

VIRTUAL_FIXTURES = ("sim_clock", "virtual_cluster")
VIRTUAL_TIME_INI = "aiostorm_virtual_time"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option, and the options for simulated tests."""
    parser.addini(
        VIRTUAL_TIME_INI,
        "run the project's async tests in virtual time, except those marked `sockets`",
        type="bool",
        default=False,
    )
    group = parser.getgroup("aiostorm", "tests marked `simulate` (aiostorm)")
    group.addoption(
        "--simulation-seeds", metavar="N", type=_count, help="run each simulated test with N seeds instead of its own"
    )
    group.addoption(
        "--simulation-only", metavar="3,5", type=_indices, help="keep these faults of the script only, or `none`"
    )
    group.addoption(
        "--simulation-shrink",
        action="store_true",
        help="run a failing seed again with fewer and fewer faults, and report the fewest with which it still fails",
    )
    group.addoption(
        "--simulation-trace", metavar="FILE", help="write the whole trace of the first failing seed (or of the last)"
    )
    group.addoption(
        "--simulation-diagram", metavar="FILE", help="draw its end as a sequence diagram: .svg, or .mmd for Mermaid"
    )
    group.addoption(
        "--simulation-about",
        metavar="TEXT",
        help="draw only faults, and what happens within 0.5 s of events with this text",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of seeds, 1 or more; not {text!r}")
    return int(text)


def _indices(text: str) -> frozenset[int]:
    names = [] if text == "none" else text.replace(",", " ").split()
    if not all(name.isdecimal() for name in names) or not (names or text == "none"):
        raise argparse.ArgumentTypeError(f"numbers of faults, as the report shows them, or `none`; not {text!r}")
    return frozenset(map(int, names))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and choose loops if the project asks for it."""
    config.addinivalue_line(
        "markers",
        "virtual_time(limit_s=None, max_jumps=…, max_steps=…, outside_wait_s=…): run the test on a loop whose time "
        "jumps (aiostorm.testing.VirtualTimeLoop); the arguments are its bounds.",
    )
    config.addinivalue_line(
        "markers",
        "simulate(seeds=20, faults=None, first=0, order=None, max_steps=…): run the async test once per seed, in a "
        "seeded world with these faults (None: all kinds); see the fixture `simulation`.",
    )
    if config.getini(VIRTUAL_TIME_INI):
        config.addinivalue_line(
            "markers", "sockets: run the test in real time, on asyncio and on uvloop (with aiostorm_virtual_time)."
        )
        _choose_loops(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Before pytest-asyncio: does this test ask for virtual time, or for a seeded world?"""
    item = metafunc.definition
    if _wants_virtual_time(item):
        _choose_loops(metafunc.config)
    if _is_simulated(item):
        _check_simulated(item)
        _session(metafunc.config).parametrize(metafunc)
    return (yield)


class LoopChooser:
    """Gives pytest-asyncio the loop of each test. Registered only once a test has asked for one.

    With any implementation of its hook, pytest-asyncio parametrizes every async test, which may reorder those with a
    wider loop scope than their function: projects that do not use virtual time must not be affected.
    """

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_asyncio_loop_factories(
        self, config: pytest.Config, item: pytest.Item
    ) -> Generator[None, LoopFactories | None, LoopFactories]:
        """A wrapper, so that a project's own choice (uvloop, say) is kept for the tests that do not ask."""
        import asyncio

        own = yield
        return loop_factories(config, item) or own or {"asyncio": asyncio.new_event_loop}


def loop_factories(config: pytest.Config, item: pytest.Item) -> LoopFactories | None:
    """The loops on which a test is to run, by name; None if it does not ask."""
    by_default = config.getini(VIRTUAL_TIME_INI)
    if _is_simulated(item):
        return {"simulated": _session(config).make_loop}
    if _wants_virtual_time(item):
        return {"virtual": _virtual_loop(item)}
    if not by_default:
        return None
    if item.get_closest_marker("sockets") is not None:
        return _real_loops()
    return {"virtual": _virtual_loop(item)}


def _wants_virtual_time(item: pytest.Item) -> bool:
    if item.get_closest_marker("virtual_time") is not None or _is_simulated(item):
        return True
    return any(name in VIRTUAL_FIXTURES for name in getattr(item, "fixturenames", ()))


def _is_simulated(item: pytest.Item) -> bool:
    return item.get_closest_marker("simulate") is not None


def _check_simulated(item: pytest.Function) -> None:
    test = item.obj
    if not inspect.iscoroutinefunction(test) and not getattr(test, "is_hypothesis_test", False):
        raise pytest.UsageError(f"{item.nodeid}: a simulated test is an `async def`")
    try:
        scope = item.config.getini("asyncio_default_test_loop_scope")
    except ValueError:
        raise pytest.UsageError(f"{item.nodeid}: simulated tests need pytest-asyncio 1.5 or newer") from None
    marker = item.get_closest_marker("asyncio")
    if marker is not None:
        scope = marker.kwargs.get("loop_scope", scope)
    if scope != "function":
        raise pytest.UsageError(
            f"{item.nodeid}: a simulated test has a loop of its own, and this one's loop_scope is {scope!r}: "
            'mark it `@pytest.mark.asyncio(loop_scope="function")`'
        )


def _session(config: pytest.Config) -> SimulationSession:
    from .simulation.session import SESSION, SimulationSession

    session = config.pluginmanager.get_plugin(SESSION)
    if session is None:
        session = SimulationSession(config)
        config.pluginmanager.register(session, SESSION)
        if config.option.simulation_shrink:
            from .simulation.rerun import RERUN, Rerun

            config.pluginmanager.register(Rerun(session), RERUN)
    assert isinstance(session, SimulationSession)
    return session


def _choose_loops(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("aiostorm-loops"):
        config.pluginmanager.register(LoopChooser(), "aiostorm-loops")


def _virtual_loop(item: pytest.Item) -> Callable[[], asyncio.AbstractEventLoop]:
    from .virtual_loop import VirtualTimeLoop

    marker = item.get_closest_marker("virtual_time")
    if marker is None or not (marker.args or marker.kwargs):
        return VirtualTimeLoop
    known = ("start_s", "limit_s", "max_jumps", "max_steps", "outside_wait_s")
    if marker.args or not set(marker.kwargs) <= set(known):
        raise pytest.UsageError(f"{item.nodeid}: virtual_time takes keyword arguments only: {', '.join(known)}")
    return functools.partial(VirtualTimeLoop, **marker.kwargs)


def _real_loops() -> LoopFactories:
    from ..runtime import loop_factory

    loops = {"asyncio": loop_factory("asyncio")}
    if importlib.util.find_spec("uvloop") is not None:
        loops["uvloop"] = loop_factory("uvloop")
    return loops


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sim_clock() -> SimClock:
    """The clock of the test's virtual loop: `advance`, `advance_to`, `run_until`, `settle`, `now`, `monotonic`."""
    from .clock import SimClock

    return SimClock()


@pytest.fixture
def _simulation_seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def _simulation_fixture() -> Any:
    if importlib.util.find_spec("pytest_asyncio") is None:
        return pytest.fixture(_without_pytest_asyncio, name="simulation")
    import pytest_asyncio

    async def simulation(request: pytest.FixtureRequest) -> Simulation:
        """The Simulation of this test's seed: `source`, `sink`, `run`. The test is marked `simulate`."""
        import asyncio

        from .simulation.world import DriverLoop

        loop = asyncio.get_running_loop()
        run = _session(request.config).run if _is_simulated(request.node) else None
        if run is None or not isinstance(loop, DriverLoop):
            strict = "" if run is None else ", and in pytest-asyncio's strict mode `@pytest.mark.asyncio` too"
            pytest.fail(
                f"the fixture `simulation` is for async tests marked `@pytest.mark.simulate`{strict}", pytrace=False
            )
        return run.simulate(loop.world)

    return pytest_asyncio.fixture(simulation, name="simulation", loop_scope="function")


def _cluster_fixture(name: str, doc: str) -> Any:
    if importlib.util.find_spec("pytest_asyncio") is None:
        return pytest.fixture(_without_pytest_asyncio, name=name)
    import pytest_asyncio

    async def running_cluster() -> AsyncIterator[LocalCluster]:
        from ..cluster import LocalCluster
        from ..topology import Config

        async with LocalCluster(Config(testing_always_try_serialize=True)) as cluster:
            yield cluster

    running_cluster.__doc__ = doc
    # pytest-asyncio's own decorator: in strict mode it leaves plain async fixtures alone.
    return pytest_asyncio.fixture(running_cluster, name=name)


def _without_pytest_asyncio() -> Any:
    raise pytest.UsageError(
        "the fixtures local_cluster, virtual_cluster and simulation need pytest-asyncio 1.5 or newer"
    )


local_cluster = _cluster_fixture("local_cluster", "A running LocalCluster on the test's loop.")
virtual_cluster = _cluster_fixture("virtual_cluster", "A running LocalCluster in virtual time.")
simulation = _simulation_fixture()
