"""Guards for every test. They watch what asyncio would let pass in silence.

1. No asyncio task outlives its test: what a test starts, it (or a fixture of its) ends.
2. No complaint of asyncio goes unseen: "Task was destroyed but it is pending", "exception was never retrieved",
   exceptions in callbacks. A task is found when it is collected: young objects after each test, all after each module.
3. Nothing unpickles: `pickle.find_class` is how bytes become code. No exception was needed for pytest, Hypothesis or
   the standard library; a test that needs one must say why here. PySpark does: closures and rows between its own
   processes are pickles. Only what its own code unpickles is let through.
4. In real time nothing blocks the event loop for more than 250 ms. A test that does so on purpose says so: marker
   `blocks_loop`. In virtual time nothing depends on how long code really runs, and nothing is measured.

Virtual time itself comes from the project's own pytest plugin (aiostorm.testing.plugin).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import Phase, given, settings
from hypothesis.strategies import none

from aiostorm import LocalCluster
from aiostorm.runtime import Stall, StallWatch, is_virtual

BLOCKED_LIMIT_S = 0.25
SPARK_LIMIT_S = 300

# Deadlines of Hypothesis measure a shared machine, not us; and a run must not depend on an earlier one.
settings.register_profile("aiostorm", deadline=None, database=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.register_profile("again", settings.get_profile("aiostorm"), max_examples=25)
# That a mutant fails is enough: the smallest example is not looked for.
settings.register_profile("mutants", settings.get_profile("aiostorm"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("AIOSTORM_EXAMPLES", "aiostorm"))


NOT_SLOW = "not slow"
"""What addopts in pyproject.toml has for -m."""


def pytest_configure(config: pytest.Config) -> None:
    """Markers of the guards; and a test that is named runs also if it is slow."""
    config.addinivalue_line("markers", "blocks_loop: blocks the event loop in real time, on purpose")
    if config.option.markexpr == NOT_SLOW and any("::" in argument for argument in config.option.file_or_dir):
        config.option.markexpr = ""


@pytest.fixture(autouse=True, scope="session")
def first_property() -> None:
    """Try a first property, before any test.

    With its first property Hypothesis registers its generator, and checks that something refers to it. It finds nothing
    after `gc.freeze`, which a guard below calls: the first property failed if a module without properties came before.
    """
    given(none())(lambda value: None)()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """As many processes as cores; but one where several make it slower: a few files, and Spark, a JVM for all tests."""
    files = config.option.file_or_dir
    few = bool(files) and all(".py" in file for file in files)
    return 0 if few or config.option.markexpr == "spark" else None


@pytest.hookimpl(wrapper=True, tryfirst=True, optionalhook=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> Generator[None, Any, Any]:
    """Tests with Spark run on one loop: they are about what is on the other side of threads, and take seconds each."""
    loops = yield
    if item.get_closest_marker("spark") is None:
        return loops
    name = "uvloop" if "uvloop" in loops else next(iter(loops))
    return {name: loops[name]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A JVM takes its time on a busy machine."""
    for item in items:
        if item.get_closest_marker("spark") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_LIMIT_S))


@pytest_asyncio.fixture
async def local_cluster() -> AsyncIterator[LocalCluster]:
    """As the testing kit's, but values go as they are: many tests emit what no other process could be sent."""
    async with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a short name, for Unix sockets: their paths have at most 107 bytes (macOS: 103)."""
    with tempfile.TemporaryDirectory(prefix="a") as folder:
        yield Path(folder)


# -- 1 and 4: the test's event loop ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def guard_loop(request: pytest.FixtureRequest, guard_complaints: None) -> None:
    """For asynchronous tests: watch the loop. Set up before the test's own fixtures, so checked after their end."""
    if pytest_asyncio.is_async_test(request.node):
        request.getfixturevalue("_watched_loop")


@pytest_asyncio.fixture
async def _watched_loop(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    stalls: list[Stall] = []
    watch = None
    if not is_virtual(loop) and request.node.get_closest_marker("blocks_loop") is None:
        watch = StallWatch(BLOCKED_LIMIT_S, stalls.append)
        watch.start()
    yield
    if watch is not None:
        watch.stop()
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, "asyncio tasks outlive their test:\n" + "\n".join(_where(task) for task in left)
    blocked = [stall for stall in stalls if not _waits_for_io(stall)]
    assert not blocked, "the event loop was blocked:\n" + "\n".join(f"{stall}\n{stall.stack}" for stall in blocked)


def _where(task: asyncio.Task[Any] | None) -> str:
    if task is None:
        return ""
    frames = task.get_stack(limit=1)
    place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "nowhere"
    return f"  {task.get_name()} {task.get_coro()!r} at {place}"


def _waits_for_io(stall: Stall) -> bool:
    # Late because the machine was busy elsewhere: the loop was idle, in its selector (uvloop has no frame of its own).
    innermost = stall.stack.rsplit('  File "', maxsplit=1)[-1].split('"')[0]
    return innermost.endswith(("selectors.py", "runners.py"))


# -- 2: what asyncio complains about -----------------------------------------------------------------------------------


class _Complaints(logging.Handler):
    """Errors that asyncio's default exception handler logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.received: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.received.append(self.format(record))

    def taken_credentials(self) -> list[str]:
        received, self.received = self.received, []
        return received


@pytest.fixture(scope="session")
def complaints() -> Iterator[_Complaints]:
    """What asyncio has complained about since the last look."""
    handler = _Complaints()
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def guard_complaints(complaints: _Complaints, guard_module: None) -> Iterator[None]:
    """Ended last of all: the loop is closed by then."""
    _UNPICKLED.clear()
    yield
    gc.collect(1)
    received = complaints.taken_credentials()
    assert not received, "asyncio complained:\n" + "\n".join(received)
    assert not _UNPICKLED, f"pickle made objects: {sorted(set(_UNPICKLED))}. Data never becomes code: msgpack or JSON"


@pytest.fixture(scope="module", autouse=True)
def guard_module(complaints: _Complaints) -> Iterator[None]:
    """What only a full collection finds: one per module, they are slow.

    What is left then is there to stay (modules, caches), and is looked at no more: that took half of the time of a run.
    """
    yield
    gc.collect()
    gc.freeze()
    received = complaints.taken_credentials()
    assert not received, "asyncio complained about something that this module left behind:\n" + "\n".join(received)


# -- 3: nothing unpickles ----------------------------------------------------------------------------------------------

_UNPICKLED: list[str] = []


class UnpicklingError(RuntimeError):
    """Something unpickles."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and not _by_pyspark():
        name = ".".join(map(str, arguments))
        _UNPICKLED.append(name)  # remembered too: a broad `except` may eat the error
        raise UnpicklingError(f"pickle makes {name}: data never becomes code, use msgpack or JSON")


def _by_pyspark() -> bool:
    """Is it PySpark that unpickles?"""
    frame = sys._getframe()
    while frame is not None:
        if "/pyspark/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


sys.addaudithook(_audit)
