"""The command line of the simulation: wrong arguments, and what it says to run again."""

from __future__ import annotations

import shlex

import pytest
from click.testing import CliRunner

from .__main__ import main
from .planted.storm import FIRST_LOOK


@pytest.mark.parametrize(
    "arguments",
    ["--seeds 0", "--jobs 0", "--faults-s 0", "--seed -1", "--seed 3 --only x", "--seed 3 --faults-s 5 --only 0,99"],
)
def test_wrong_arguments_are_reported(arguments: str) -> None:
    result = CliRunner().invoke(main, arguments.split())
    assert result.exit_code == 2, result.output
    assert arguments.split()[-2] in result.output


def test_only_accepts_faults_in_any_order_and_prints_the_command_to_rerun() -> None:
    whole = CliRunner().invoke(main, ["--seed", "4", "--faults-s", "20"]).output.splitlines()
    result = CliRunner().invoke(main, ["--seed", "4", "--faults-s", "20", "--only", "2,0"])
    assert result.output.splitlines()[1:3] == [whole[1], whole[3]]
    assert result.output.splitlines()[-1].endswith("--seed 4 --faults-s 20 --only 0,2")


@pytest.mark.slow
@pytest.mark.sockets  # processes of their own
def test_the_processes_and_the_command_to_rerun_have_the_planted_bug() -> None:
    bug, first = "all grouping leaves one out", FIRST_LOOK["all grouping leaves one out"]
    arguments = ["--first", str(first), "--seeds", "1", "--world", "storm", "--faults-s", "150", "--plant", bug]
    many = CliRunner().invoke(main, arguments)
    assert many.exit_code == 1, many.output
    [command] = [line for line in many.output.splitlines() if line.startswith("  python -m tests.simulation ")]
    again = shlex.split(command)[3:]
    assert again[again.index("--plant") + 1] == bug
    one = CliRunner().invoke(main, again)
    assert one.exit_code == 1
    assert "BROKEN" in one.output
    assert CliRunner().invoke(main, again[: again.index("--plant")]).exit_code == 0  # it is taken out again
