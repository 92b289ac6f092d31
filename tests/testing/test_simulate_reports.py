"""What a failing seed of a simulated test says, and how to go on from there: replay, trace, diagram, fewer faults."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

MISTAKES = """
import pytest
from bolts import Batches, Clean, chain


@pytest.mark.asyncio
@pytest.mark.simulate(seeds=2)
async def test_blank(simulation):
    topology, _ = chain(simulation, Clean, ["a", " ", "b"])
    await simulation.run(topology)


@pytest.mark.asyncio
@pytest.mark.simulate(seeds=[1], faults="crash pause late")
async def test_kept(simulation):
    words = [f"w{i}" for i in range(40)]
    topology, sink = chain(simulation, Batches, words)
    await simulation.run(topology)
    missing = set(words) - {word for word, in sink.values}
    assert not missing
"""


def said(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


# -- what a failing seed says ------------------------------------------------------------------------------------------


def command(text: str, what: str) -> str:
    [found] = re.findall(rf"^{what}: +(.*)$", text, re.MULTILINE)
    return found


def in_a_shell(line: str) -> subprocess.CompletedProcess[str]:
    if sys.platform == "win32":
        pytest.skip("there is no sh")
    line = line.replace("python ", f'"{sys.executable}" ', 1) + " -p no:cacheprovider"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_a_failing_seed_is_reported_with_its_trace_and_the_command_to_rerun(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(test_mistakes=MISTAKES)
    result = simulated_strict.runpytest("test_mistakes.py::test_kept")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       assert not missing",
            "*- simulation -*",
            "seed 1, order of what is ready: *",
            "fault script: number, true second, kind",
            "   [[]0] *",
            "the end of the trace: true second, who -> to whom: what",
            "  * events before",
            "*words[[]1] -> bolt[[]2]: 1 of stream 'default' ('w*',)",
            "*-- storm: ends",
            'run it again:     python -m pytest "test_mistakes.py::test_kept[[]seed-1]"',
        ]
    )
    again = in_a_shell(command(said(result), "run it again"))
    assert again.returncode == 1, again.stderr
    trace = r"^ +\d+\.\d{6}  .*$"
    assert re.findall(trace, again.stdout, re.MULTILINE) == re.findall(trace, said(result), re.MULTILINE)


def test_only_a_few_of_many_failing_seeds_are_reported_in_full(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(test_mistakes=MISTAKES)
    result = simulated_strict.runpytest("test_mistakes.py::test_blank", "--simulation-seeds", "5")
    result.assert_outcomes(failed=5)
    assert said(result).count("the end of the trace") == 3
    assert said(result).count("run it again:") == 5
    assert "::run(" not in said(result)
    assert "simulation/run.py" not in said(result), "the traceback ends where the test calls `run`"


@pytest.mark.slow
def test_names_that_a_shell_would_change_are_quoted(simulated_strict: pytest.Pytester) -> None:
    folder = simulated_strict.mkdir("a folder; $(touch oops)")
    (folder / "test_it's.py").write_text(
        "import pytest\n"
        "@pytest.mark.asyncio\n"
        "@pytest.mark.simulate(seeds=1)\n"
        "@pytest.mark.parametrize('x', ['$HOME \"`touch oops`\" \\\\\\\\'])\n"
        "async def test_x(simulation, x):\n"
        "    assert False, 'as it must'\n"
    )
    result = simulated_strict.runpytest()
    result.assert_outcomes(failed=1)
    again = in_a_shell(command(said(result), "run it again"))
    assert "1 failed" in again.stdout, again.stdout + again.stderr
    assert not Path("oops").exists()


def test_the_command_is_for_the_folder_in_which_pytest_was_started(
    simulated_strict: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = simulated_strict.mkdir("below")
    (folder / "test_x.py").write_text(
        "import pytest\n@pytest.mark.asyncio\n@pytest.mark.simulate(seeds=1)\nasync def test_x(simulation): assert 0\n"
    )
    monkeypatch.chdir(folder)
    result = simulated_strict.runpytest("test_x.py")
    assert 'run it again:     python -m pytest "test_x.py::test_x[seed-0]"\n' in said(result)


def test_faults_are_left_out(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import pytest
        from bolts import Clean, chain

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=[3])
        async def test_x(simulation):
            topology, _ = chain(simulation, Clean, ["a"])
            await simulation.run(topology, faults_s=20)
            faults = simulation.faults
            assert False, f"{len(faults.drawn)} {[faults.drawn.index(fault) for fault in faults.script]}"
        """
    )
    count = int(re.findall(r"AssertionError: (\d+) \[0, 1, 2", said(simulated_strict.runpytest()))[0])
    result = simulated_strict.runpytest("--simulation-only", "2, 0")
    assert f"AssertionError: {count} [0, 2]" in said(result)
    assert f"fault script (2 of {count}): number, true second, kind\n   [0] " in said(result)
    assert re.search(r'run it again: .*\[seed-3\]" --simulation-only 0,2\n', said(result))
    result = simulated_strict.runpytest("--simulation-only", "none")
    assert f"AssertionError: {count} []" in said(result)
    assert "--simulation-only none\n" in said(result)
    for wrong in ("x", "", "none,1", "-1"):
        result = simulated_strict.runpytest(f"--simulation-only={wrong}")
        assert f"numbers of faults, as the report shows them, or `none`; not {wrong!r}" in said(result)


def test_the_trace_and_the_diagram_are_of_the_first_seed_that_fails(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import pytest
        from bolts import Clean, chain

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=4, faults="none")
        async def test_x(simulation):
            topology, _ = chain(simulation, Clean, [f"seed-{simulation.seed}"] * 30)
            await simulation.run(topology, faults_s=20)
            assert simulation.seed not in (1, 2)
        """
    )
    options = ["--simulation-trace", "trace.txt", "--simulation-diagram"]
    simulated_strict.runpytest(*options, "diagram.mmd").assert_outcomes(passed=2, failed=2)
    trace = Path("trace.txt").read_text(encoding="utf-8")
    assert "'seed-1'" in trace
    assert "'seed-2'" not in trace
    assert "starts (incarnation 1)" in trace.splitlines()[0]
    assert "storm: ends" in trace.splitlines()[-1]
    assert Path("diagram.mmd").read_text(encoding="utf-8").startswith("sequenceDiagram\n    participant p0 as ")

    simulated_strict.runpytest("-k", "seed-0 or seed-3", *options, "diagram.svg").assert_outcomes(
        passed=2, deselected=2
    )
    assert "'seed-3'" in Path("trace.txt").read_text(encoding="utf-8"), "none failed: the last one"
    assert Path("diagram.svg").read_text(encoding="utf-8").startswith("<svg ")

    simulated_strict.runpytest("-k", "seed-1", *options, "diagram.mmd", "--simulation-about", "message 7 is acked")
    assert "message 7 is acked" in Path("diagram.mmd").read_text(encoding="utf-8")
    result = simulated_strict.runpytest(*options, "diagram.png")
    assert "'diagram.png' ends neither in .svg nor in .mmd" in said(result)


# -- shrinking ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failing_seed_is_shrunk(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(test_mistakes=MISTAKES)
    result = simulated_strict.runpytest("test_mistakes.py", "--simulation-shrink", "--simulation-trace", "trace.txt")
    result.assert_outcomes(failed=3)
    text = said(result)
    assert "shrinking test_mistakes.py::test_blank[seed-0]: " in text
    assert re.search(r"^  try 2: 0 faults: fails$", text, re.MULTILINE)
    assert 'pytest "test_mistakes.py::test_blank[seed-1]" --simulation-only none\n' in text, "no fault is needed"
    [whole, tries] = re.findall(r"^shrunk from (\d+) faults to 1 in (\d+) tries$", text, re.MULTILINE)[0]
    assert int(whole) > 1
    assert int(tries) < 20
    [again] = re.findall(r'run it again: +(.*::test_kept\[seed-1\]" --simulation-only \d+)$', text, re.MULTILINE)
    assert in_a_shell(again).returncode == 1
    assert re.findall(r"fault script \(1 of \d+\).*\n +\[\d+\] +\d+\.\d+  crash", text)
    assert "--simulation-shrink" not in text.partition("= FAILURES =")[2]
    assert Path("trace.txt").read_text(encoding="utf-8").count("!! world: is healed") == 1


def test_shrinking_keeps_to_failures_of_the_same_type_and_makes_fixtures_anew(
    simulated_strict: pytest.Pytester,
) -> None:
    simulated_strict.makepyfile(
        """
        import pytest
        from bolts import Clean, chain

        @pytest.fixture
        def fresh():
            made = []
            yield made
            print("torn down", made)

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=[3])
        async def test_x(simulation, fresh):
            fresh.append(1)
            assert fresh == [1]
            await simulation.run(chain(simulation, Clean, ["a"])[0], faults_s=20)
            if simulation.faults.drawn[1] not in simulation.faults.script:
                raise ValueError("another one")
            if simulation.faults.drawn[2] in simulation.faults.script:
                raise KeyError("this one")

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=2)
        async def test_passes(simulation, fresh):
            await simulation.run(chain(simulation, Clean, ["a"])[0], faults_s=20)
        """
    )
    result = simulated_strict.runpytest("--simulation-shrink", "-p", "no:randomly")
    result.assert_outcomes(failed=1, passed=2)
    assert '::test_x[seed-3]" --simulation-only 1,2\n' in said(result)
    assert "E           KeyError: 'this one'" in said(result)
    assert said(result).count("torn down [1]") <= 1, "what the other tries printed is not shown"


def test_shrinking_a_test_that_depends_on_more_than_its_seed_says_so(simulated_strict: pytest.Pytester) -> None:
    simulated_strict.makepyfile(
        """
        import pytest
        from bolts import Clean, chain

        runs = []

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=[3])
        async def test_once(simulation):
            runs.append(1)
            await simulation.run(chain(simulation, Clean, ["a"])[0], faults_s=20)
            assert len(runs) > 1

        @pytest.mark.asyncio
        @pytest.mark.simulate(seeds=[3])
        async def test_differs(simulation):
            runs.append(1)
            await simulation.run(chain(simulation, Clean, ["a"] * len(runs))[0], faults_s=20)
            assert False
        """
    )
    result = simulated_strict.runpytest("--simulation-shrink", "-p", "no:randomly")
    result.assert_outcomes(failed=2)
    assert "it was run again to shrink it, and did not fail in the same way" in said(result)
    assert "two runs of this seed were not the same" in said(result)
