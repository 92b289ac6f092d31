"""The pytest plugin: virtual time for the tests that ask for it, a cluster to test in.

It is loaded in every project that has aiostorm installed. So:

1. It imports pytest and pytest-asyncio only; the rest of aiostorm is imported by the fixtures that need it.
2. A test that asks for nothing (no fixture, no marker, no ini option) runs as it would without the plugin.
3. It works with pytest-asyncio's strict and auto mode, and does no harm where pytest-asyncio is not installed.

A test asks for virtual time by *using* `sim_clock` or `virtual_cluster` (directly or through other fixtures), by
`@pytest.mark.virtual_time`, or for the whole project by the ini option `aiostorm_virtual_time = true`; then tests
marked `sockets` are left out and run in real time, once on asyncio and once on uvloop where that is installed.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import asyncio

    from ..cluster import LocalCluster
    from .clock import SimClock

    LoopFactories = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

VIRTUAL_FIXTURES = ("sim_clock", "virtual_cluster")
VIRTUAL_TIME_INI = "aiostorm_virtual_time"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini(
        VIRTUAL_TIME_INI,
        "run the project's async tests in virtual time, except those marked `sockets`",
        type="bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and choose loops if the project asks for it."""
    config.addinivalue_line(
        "markers",
        "virtual_time(limit_s=None, max_jumps=…, max_steps=…, outside_wait_s=…): run the test on a loop whose time "
        "jumps (aiostorm.testing.VirtualTimeLoop); the arguments are its bounds.",
    )
    if config.getini(VIRTUAL_TIME_INI):
        config.addinivalue_line(
            "markers", "sockets: run the test in real time, on asyncio and on uvloop (with aiostorm_virtual_time)."
        )
        _choose_loops(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Before pytest-asyncio looks: does this test ask for virtual time?"""
    if _asks(metafunc.definition):
        _choose_loops(metafunc.config)
    return (yield)


class LoopChooser:
    """Gives pytest-asyncio the loop of each test. Registered only once a test has asked.

    With any implementation of its hook, pytest-asyncio parametrizes every async test, which may reorder those with a
    wider loop scope than their function: a project that does not ask is spared that.
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
    if _asks(item):
        return {"virtual": _virtual_loop(item)}
    if not by_default:
        return None
    if item.get_closest_marker("sockets") is not None:
        return _real_loops()
    return {"virtual": _virtual_loop(item)}


def _asks(item: pytest.Item) -> bool:
    if item.get_closest_marker("virtual_time") is not None:
        return True
    return any(name in VIRTUAL_FIXTURES for name in getattr(item, "fixturenames", ()))


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
    from ..actors import loop_factory

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


def _cluster_fixture(name: str, doc: str) -> Any:
    if importlib.util.find_spec("pytest_asyncio") is None:
        return pytest.fixture(_without_pytest_asyncio, name=name)
    import pytest_asyncio

    async def running_cluster() -> AsyncIterator[LocalCluster]:
        from ..cluster import LocalCluster

        async with LocalCluster() as cluster:
            yield cluster

    running_cluster.__doc__ = doc
    # pytest-asyncio's own decorator: in strict mode it leaves plain async fixtures alone.
    return pytest_asyncio.fixture(running_cluster, name=name)


def _without_pytest_asyncio() -> Any:
    raise pytest.UsageError("the fixtures local_cluster and virtual_cluster need pytest-asyncio 1.5 or newer")


local_cluster = _cluster_fixture("local_cluster", "A running LocalCluster on the test's loop.")
virtual_cluster = _cluster_fixture("virtual_cluster", "A running LocalCluster in virtual time.")
