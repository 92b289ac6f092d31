"""docs/running.md is true: its exit codes are those of the code, its units' commands are accepted, completion works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from aiostorm.cli import cli
from aiostorm.cli.errors import BusyCommandError, CommandError, DeniedCommandError, ExposedCommandError
from aiostorm.cli.run import TIMED_OUT
from aiostorm.cluster.worker.worker import NO_PARENT, TERMINATED

PAGE = (Path(__file__).parents[2] / "docs" / "running.md").read_text()


def test_the_exit_codes_are_those_of_the_code() -> None:
    named = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    interrupted = 130  # 128 and the number of SIGINT
    codes = {0, 1, CommandError.exit_code, NO_PARENT, BusyCommandError.exit_code, ExposedCommandError.exit_code}
    codes |= {TIMED_OUT, interrupted, TERMINATED, DeniedCommandError.exit_code}
    assert named == codes


def test_the_commands_of_its_units_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()  # the credentials
    commands = [shlex.split(line)[1:] for line in re.findall(r"^ExecStart=(.*)", PAGE, re.MULTILINE)]
    assert [name for name, *_ in commands] == ["run", "worker"]
    for name, *arguments in commands:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        with command.make_context(name, arguments):  # a UsageError for an option that there is not
            pass


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"_AIOSTORM_COMPLETE={shell}_source" in PAGE
    monkeypatch.setenv("_AIOSTORM_COMPLETE", f"{shell}_source")
    if shell == "bash":  # it looks for the version of the bash that is there
        monkeypatch.setattr(BashComplete, "_check_version", staticmethod(lambda: None))
    with pytest.raises(SystemExit) as ended:
        cli.main([], prog_name="aiostorm")
    assert not ended.value.code
    assert "_AIOSTORM_COMPLETE=" in capsys.readouterr().out
