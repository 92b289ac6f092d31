"""The pytest plugin, in projects of its own: which tests get which loop, and which are not affected."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

uvloop_here = importlib.util.find_spec("uvloop") is not None


@pytest.fixture(params=["strict", "auto"])
def project(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of a user's, in one of pytest-asyncio's modes; its async tests are marked as strict mode wants it."""
    pytester.makeini(
        f"""
        [pytest]
        asyncio_mode = {request.param}
        asyncio_default_fixture_loop_scope = function
        addopts = --strict-markers
        filterwarnings =
            error
            ignore:Module already imported so cannot be rewritten
        """
    )
    return pytester


def test_the_clock_fixture_gives_virtual_time(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest
        from aiostorm.testing import SimClock, VirtualTimeLoop

        @pytest.fixture
        def patient(sim_clock):
            return sim_clock

        @pytest.mark.asyncio
        async def test_direct(sim_clock: SimClock):
            await sim_clock.advance(3600)
            assert sim_clock.monotonic() == 4600

        @pytest.mark.asyncio
        async def test_through_another_fixture(patient):
            await asyncio.sleep(3600)
            assert patient.monotonic() == 4600

        @pytest.mark.asyncio
        @pytest.mark.virtual_time
        async def test_by_the_marker():
            await asyncio.sleep(3600)
            assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        """
    )
    result = project.runpytest("-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*::test_direct PASSED*"])  # its name has no [virtual]


def test_a_test_that_does_not_ask_is_left_alone(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest

        @pytest.mark.asyncio
        async def test_before():
            assert not hasattr(asyncio.get_running_loop(), "virtual")

        @pytest.mark.asyncio
        async def test_virtual(sim_clock):
            assert asyncio.get_running_loop().virtual

        @pytest.mark.asyncio
        async def test_after():
            assert not hasattr(asyncio.get_running_loop(), "virtual")

        def test_plain():
            pass
        """
    )
    result = project.runpytest("-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*::test_before PASSED*", "*::test_after PASSED*", "*::test_plain PASSED*"])


@pytest.mark.slow
def test_a_project_that_does_not_ask_has_no_loop_hook_and_imports_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys
        import pytest

        @pytest.mark.asyncio
        async def test_nothing_was_imported(request):
            loaded = {name for name in sys.modules if name.startswith("aiostorm.")}
            assert loaded == {"aiostorm.testing", "aiostorm.testing.plugin"}
            assert "pydantic" not in sys.modules and "aiohttp" not in sys.modules
            assert not request.config.hook.pytest_asyncio_loop_factories.get_hookimpls()
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.skipif(not uvloop_here, reason="uvloop is not installed")
def test_a_projects_own_loops_are_kept_for_the_others(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import uvloop

        def pytest_asyncio_loop_factories(config, item):
            return {"uvloop": uvloop.new_event_loop}
        """
    )
    project.makepyfile(
        """
        import asyncio
        import pytest
        import uvloop

        @pytest.mark.asyncio
        async def test_virtual(sim_clock):
            assert asyncio.get_running_loop().virtual

        @pytest.mark.asyncio
        async def test_own():
            assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        """
    )
    project.runpytest().assert_outcomes(passed=2)


def test_the_markers_bounds_reach_the_loop(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.virtual_time(max_jumps=50)
        async def test_polls():
            while True:
                await asyncio.sleep(1)
        """
    )
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*TimeLimitError: virtual time has moved 50 times*", "*test_polls: await asyncio.sleep*"]
    )


def test_an_unknown_bound_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.virtual_time(limit=50)
        async def test_nothing():
            pass
        """
    )
    result = project.runpytest()
    assert result.ret != 0
    assert "virtual_time takes keyword arguments only: start_s, limit_s" in result.stdout.str() + result.stderr.str()


def test_a_deadlock_fails_the_test_and_only_that(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest

        @pytest.mark.asyncio
        async def test_stuck(sim_clock):
            await asyncio.Event().wait()

        @pytest.mark.asyncio
        async def test_next(sim_clock):
            await sim_clock.advance(1)
        """
    )
    result = project.runpytest()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*DeadlockError: deadlock: nothing is ready*", "*await asyncio.Event().wait()"])


def test_the_ini_option_gives_every_async_test_virtual_time_except_sockets(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        asyncio_mode = auto
        asyncio_default_fixture_loop_scope = function
        aiostorm_virtual_time = true
        addopts = --strict-markers
        filterwarnings =
            error
            ignore:Module already imported so cannot be rewritten
        """
    )
    pytester.makepyfile(
        """
        import asyncio
        import time
        import pytest
        from hypothesis import given, strategies as st

        async def test_virtual():
            await asyncio.sleep(3600)
            assert asyncio.get_running_loop().virtual

        @given(st.integers(0, 10_000))
        async def test_hypothesis(delay):
            await asyncio.sleep(delay)
            assert asyncio.get_running_loop().virtual

        @pytest.fixture
        async def started():
            await asyncio.sleep(60)
            yield asyncio.get_running_loop()
            await asyncio.sleep(60)

        async def test_fixtures_share_the_loop(started):
            assert started is asyncio.get_running_loop()
            assert started.time() == 1060

        @pytest.mark.sockets
        async def test_real():
            assert not hasattr(asyncio.get_running_loop(), "virtual")
            before = time.monotonic()
            await asyncio.sleep(0.01)
            assert time.monotonic() - before >= 0.005

        def test_sync():
            pass
        """
    )
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=6 if uvloop_here else 5)
    if uvloop_here:
        result.stdout.fnmatch_lines(["*::test_real[[]asyncio] PASSED*", "*::test_real[[]uvloop] PASSED*"])


def test_a_sockets_marker_of_another_plugin_is_ignored(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        def pytest_configure(config):
            config.addinivalue_line("markers", "sockets: theirs")
        """
    )
    project.makepyfile(
        """
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.sockets
        async def test_theirs():
            pass

        @pytest.mark.asyncio
        async def test_ours(sim_clock):
            pass
        """
    )
    project.runpytest().assert_outcomes(passed=2)


def test_a_wider_loop_scope_still_works(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest

        loops = []

        @pytest.mark.asyncio(loop_scope="module")
        async def test_first():
            loops.append(asyncio.get_running_loop())

        def test_between():
            assert len(loops) == 1

        @pytest.mark.asyncio(loop_scope="module")
        async def test_second():
            assert loops == [asyncio.get_running_loop()]
        """
    )
    project.runpytest("-p", "no:randomly").assert_outcomes(passed=3)


def test_without_pytest_asyncio_plain_tests_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_plain():
            pass

        def test_clock(sim_clock):
            pass
        """
    )
    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=2)


def test_without_the_package_pytest_asyncio_the_plugin_loads() -> None:
    program = """
import sys
sys.modules["pytest_asyncio"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "pytest_asyncio" else found(name, *a)
import aiostorm.testing.plugin as plugin
print(plugin.local_cluster.name if hasattr(plugin.local_cluster, "name") else "local_cluster")
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "local_cluster\n"
