"""Simulated tests, in projects of their own: which tests and worlds there are, and the promises that are kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


def said(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


# -- which tests, which worlds -----------------------------------------------------------------------------------------


def test_a_test_runs_once_per_seed_in_a_world_of_its_own(simulated: pytest.Pytester) -> None:
    simulated.makepyfile(
        """
        import asyncio
        import pytest
        from bolts import Clean, chain

        worlds = {}

        @pytest.mark.asyncio
        @pytest.mark.parametrize("row", ["a", "b"])
        @pytest.mark.simulate(seeds=3, first=5, faults="crash")
        async def test_rows(simulation, row):
            assert asyncio.get_running_loop().world is simulation.world
            assert simulation.faults.kinds == ("crash",)
            topology, sink = chain(simulation, Clean, [row] * 10)
            outcome = await simulation.run(topology, faults_s=20)
            assert outcome.seed == simulation.seed == simulation.world.seed
            assert (outcome.acked, len(sink.values) >= 10) == (10, True)
            worlds.setdefault(outcome.seed, []).append(simulation.world)

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=[7, 3, 7], order="fifo", faults=[])
        async def test_seeds(simulation):
            assert simulation.world.order == "fifo"
            assert simulation.faults.kinds == ()

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=1)
        async def test_without_the_fixture():
            assert asyncio.get_running_loop().world.seed == 0

        @pytest.mark.asyncio
        async def test_another_loop(local_cluster):
            assert not hasattr(asyncio.get_running_loop(), "world")

        def test_all_worlds_are_different():
            assert sorted(worlds) == [5, 6, 7]
            assert len({id(world) for made in worlds.values() for world in made}) == 6
        """
    )
    result = simulated.runpytest("-v", "-p", "no:randomly")
    result.assert_outcomes(passed=6 + 2 + 1 + 1 + 1)
    result.stdout.fnmatch_lines(["*::test_rows[[]seed-5-a] PASSED*", "*::test_rows[[]seed-7-b] PASSED*"])
    result.stdout.fnmatch_lines(["*::test_seeds[[]seed-7] PASSED*", "*::test_seeds[[]seed-3] PASSED*"])
    result.stdout.fnmatch_lines(["*::test_without_the_fixture[[]seed-0] PASSED*"])


def test_a_users_topology_runs_with_its_outside_components_replaced(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import pytest
        from aiostorm import BasicBolt, Spout, Fields, TopologyBuilder
        from aiostorm.testing import ScriptError
        from bolts import Clean

        class Reads(Spout):
            outputs = Fields("word")
            def next_tuple(self):
                raise RuntimeError("this would read the real source")

        class Writes(BasicBolt):
            config = {"tick_tuple_freq_s": 10}
            def execute(self, tup, collector):
                raise RuntimeError("this would write")

        def topology():
            builder = TopologyBuilder()
            builder.set_spout("read", Reads, parallelism=2)
            builder.set_bolt("clean", Clean).shuffle_grouping("read")
            builder.set_bolt("write", Writes, parallelism=3).fields_grouping("clean", "word")
            return builder.create_topology()

        pytestmark = [pytest.mark.asyncio, pytest.mark.simulate(seeds=3)]

        async def test_replaced(simulation):
            source, sink = simulation.source(["a", "b"] * 10, "word"), simulation.sink()
            await simulation.run(topology(), replace={"read": source, "write": sink}, faults_s=20)
            assert {word for word, in sink.values} == {"a", "b"}
            assert len(source.acked) == 20

        async def test_does_not_fit(simulation):
            source = simulation.source(["a"], "letter")
            with pytest.raises(ScriptError, match="'reads' is no spout of this topology; there are: read"):
                await simulation.run(topology(), replace={"reads": source})
            with pytest.raises(ScriptError, match="'read' is no bolt of this topology; there are: clean, write"):
                await simulation.run(topology(), replace={"read": simulation.sink()})
            with pytest.raises(ScriptError, match="'read' emits word; the source has: letter"):
                await simulation.run(topology(), replace={"read": source})
        """
    )
    simulated_strict.runpytest().assert_outcomes(passed=6)


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("faults='crash lightning'", "no such fault: 'lightning'; there are: crash, pause,"),
        ("faults=7", "faults names kinds of faults, 'all' or 'none'; it is not 7"),
        ("seeds=0", "a simulated test has one seed at least; seeds=0 has none"),
        ("seeds='ab'", "seeds is how many, or which ones; not 'ab'"),
        ("seeds=[1, 'x']", "seeds are whole numbers, not 'x'"),
        ("first=None", "first is the number of a seed, not None"),
        ("order='lifo'", "no such order: 'lifo'; there are: fifo, shuffle, random"),
        ("seed=3", "simulate takes keyword arguments only: seeds, faults, first, order, max_steps; not seed"),
        ("20", "simulate takes keyword arguments only: seeds, faults, first, order, max_steps; not 20"),
    ],
)
def test_a_wrong_marker_is_refused_when_tests_are_collected(
    simulated_strict: pytest.Pytester, marker: str, complaint: str
) -> None:
    simulated_strict.makepyfile(
        f"""
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.simulate({marker})
        async def test_x(simulation):
            pass
        """
    )
    result = simulated_strict.runpytest("--collect-only")
    assert result.ret != 0
    assert f"::test_x: {complaint}" in said(result)


def test_a_simulated_test_is_async_and_has_a_loop_of_its_own(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        test_sync="import pytest\n@pytest.mark.simulate\ndef test_x(simulation): pass\n",
        test_scope="import pytest\n@pytest.mark.simulate\n@pytest.mark.asyncio(loop_scope='module')\n"
        "async def test_x(simulation): pass\n",
    )
    result = simulated_strict.runpytest()
    result.assert_outcomes(errors=2)
    assert "::test_x: a simulated test is an `async def`" in said(result)
    assert "this one's loop_scope is 'module': mark it `@pytest.mark.asyncio(loop_scope=\"function\")`" in said(result)


@pytest.mark.slow
def test_without_pytest_asyncio_a_simulated_test_says_so(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile("import pytest\n@pytest.mark.simulate\nasync def test_x(simulation): pass\n")
    simulated_strict.makeini("[pytest]")
    result = simulated_strict.runpytest_subprocess("-p", "no:asyncio")
    assert result.ret != 0
    assert "::test_x: simulated tests need pytest-asyncio 1.5 or newer" in said(result)


def test_the_fixture_without_the_marker_says_so(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import pytest

        @pytest.mark.asyncio
        async def test_async(simulation):
            pass

        def test_sync(simulation):
            pass
        """
    )
    result = simulated_strict.runpytest()
    result.assert_outcomes(errors=2)
    assert said(result).count("the fixture `simulation` is for async tests marked `@pytest.mark.simulate`") >= 2


def test_without_the_marker_of_strict_mode_it_says_so(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile("import pytest\n@pytest.mark.simulate(seeds=1)\nasync def test_x(simulation): pass\n")
    result = simulated_strict.runpytest()
    result.assert_outcomes(errors=1)
    assert "`@pytest.mark.simulate`, and in pytest-asyncio's strict mode `@pytest.mark.asyncio` too" in said(result)


@pytest.mark.slow
def test_another_fixture_named_simulation_is_left_alone(simulated: pytest.Pytester) -> None:
    simulated.makeconftest("import pytest\n@pytest.fixture\ndef simulation():\n    return 'theirs'\n")
    simulated.makepyfile(
        """
        import asyncio
        import sys
        import pytest

        @pytest.mark.asyncio
        async def test_theirs(simulation, request):
            assert simulation == "theirs"
            assert not hasattr(asyncio.get_running_loop(), "virtual")
            assert "aiostorm.testing.simulation" not in sys.modules
            assert not request.config.pluginmanager.has_plugin("aiostorm-simulation")
        """
    )
    simulated.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_random_module_is_seeded_only_while_the_test_runs(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import random
        import pytest

        drawn = []
        expected = random.Random(4).random()
        random.seed(4)

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=[0, 1])
        @pytest.mark.parametrize("again", [0, 1])
        async def test_draws(simulation, again):
            drawn.append((simulation.seed, random.random()))

        def test_afterwards():
            assert random.random() == expected
            assert len(drawn) == 4 and len(set(drawn)) == 2
        """
    )
    simulated_strict.runpytest("-p", "no:randomly", "-p", "no:hypothesispytest").assert_outcomes(passed=5)


def test_more_seeds_by_the_option_and_any_seed_by_its_name(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        test_many="""
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=2, first=10, faults="none")
        async def test_x(simulation):
            assert simulation.seed < 777
        """
    )
    simulated_strict.runpytest().assert_outcomes(passed=2)
    simulated_strict.runpytest("--simulation-seeds", "5").assert_outcomes(passed=5)
    result = simulated_strict.runpytest("test_many.py::test_x[seed-777]", "test_many.py::test_x[seed-10]")
    result.assert_outcomes(passed=1, failed=1)
    result = simulated_strict.runpytest("--simulation-seeds", "0")
    assert "a number of seeds, 1 or more; not '0'" in said(result)


def test_a_bolt_that_opens_a_socket_gets_an_error_that_explains_it(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import asyncio
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=1)
        @pytest.mark.parametrize("opens", [
            lambda: asyncio.open_connection("example.invalid", 80),
            lambda: asyncio.start_server(print, "127.0.0.1", 0),
            lambda: asyncio.create_subprocess_exec("true"),
            lambda: asyncio.create_subprocess_shell("true"),
        ])
        async def test_x(simulation, opens):
            with pytest.raises(NotImplementedError, match="a simulated process has no I/O: let a component"):
                await opens()
        """
    )
    simulated_strict.runpytest().assert_outcomes(passed=4)


# -- broken promises ---------------------------------------------------------------------------------------------------


def test_an_unhandled_invariant_error_fails_the_test(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import asyncio
        import pytest
        from aiostorm.testing.simulation import InvariantError
        from bolts import Clean, chain

        pytestmark = [pytest.mark.asyncio, pytest.mark.simulate(seeds=1, faults="none")]

        async def test_never_ran(simulation):
            simulation.world.problem("something broke")

        async def test_without_the_fixture():
            asyncio.get_running_loop().world.problem("something broke")

        async def test_afterwards(simulation):
            topology, _ = chain(simulation, Clean, ["a"])
            await simulation.run(topology)
            simulation.world.problem("something broke")

        async def test_seen(simulation):
            topology, _ = chain(simulation, Clean, [" "])
            with pytest.raises(InvariantError, match="bolt 'bolt' has executed 7 tuples and neither acked nor"):
                await simulation.run(topology)

        async def test_seen_and_another(simulation):
            topology, _ = chain(simulation, Clean, [" "])
            with pytest.raises(InvariantError):
                await simulation.run(topology)
            simulation.world.problem("something broke")
        """
    )
    result = simulated_strict.runpytest("-rA")
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        ["broken promises:", "something broke (at 0.000000 s)", "PASSED *::test_seen[[]seed-0]*"]
    )


def test_a_simulation_in_another_loop_says_so(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import pytest
        from aiostorm.testing.simulation import Simulation, world_loop
        from bolts import Clean, chain

        @pytest.mark.asyncio
        async def test_x():
            loop = world_loop(1)
            simulation = Simulation(loop.world)
            try:
                with pytest.raises(RuntimeError, match="runs in the loop of its own world"):
                    await simulation.run(chain(simulation, Clean, ["a"])[0])
            finally:
                loop.close()
        """
    )
    simulated_strict.runpytest().assert_outcomes(passed=1)


# -- the same in every run, and the end of it --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_seed_is_the_same_in_every_process(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import random
        import pytest
        from bolts import Clean, chain

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=3)
        async def test_x(simulation):
            words = [random.choice("abc") for _ in range(20)]
            outcome = await simulation.run(chain(simulation, Clean, words)[0])
            print("digest", outcome.digest, "".join(words))
        """
    )
    digests = []
    for hash_seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        digests.append(re.findall(r"digest (\w+) (\w+)", done.stdout))
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_ends_a_simulated_test_at_once(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import pytest
        from bolts import Clean, chain

        @pytest.mark.asyncio
        @pytest.mark.simulate(faults="none", max_steps=10**12)
        async def test_x(simulation):
            print("it runs", flush=True)
            await simulation.run(chain(simulation, Clean, ["a"])[0], faults_s=1e12)
        """
    )
    command = [sys.executable, "-u", "-m", "pytest", "-s", "-p", "no:cacheprovider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "it runs" in line:
                    break
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 2, out
    assert "KeyboardInterrupt" in out
    assert "it runs" not in out, "no other seed was begun"
