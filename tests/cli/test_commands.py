"""The table of commands: each is a module that is imported when it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import aiostorm.cli
from aiostorm.cli import cli
from aiostorm.cli.app import COMMANDS

CLI = Path(aiostorm.cli.__file__).parent


def context() -> click.Context:
    return click.Context(cli, info_name="aiostorm")


def test_every_module_of_a_command_is_in_the_table():
    assert {file.name.removesuffix("_command.py").replace("_", "-") for file in CLI.glob("*_command.py")} == set(
        COMMANDS
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name: str):
    command = cli.get_command(context(), name)
    assert command is not None
    assert command.name == name
    assert command.hidden == (not COMMANDS[name])
    if COMMANDS[name]:
        text = " ".join((command.help or "").split())
        assert text.startswith(COMMANDS[name].removesuffix("."))


def test_help_imports_no_command():
    code = (
        "import sys\nfrom aiostorm.cli import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.endswith('_command')], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stderr.strip() == "[]"
    for name, text in COMMANDS.items():
        assert (re.search(rf"^  {name} ", found.stdout, re.MULTILINE) is not None) == bool(text)


def test_shared_modules_import_no_command():
    sharing = [file for file in CLI.glob("*.py") if not file.name.endswith("_command.py")]
    imports = re.compile(r"^\s*(from|import) .*_command\b", re.MULTILINE)
    assert [file.name for file in sharing if imports.search(file.read_text("utf-8"))] == []


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]):
    assert cli.get_command(context(), "rnu") is None
    with pytest.raises(SystemExit) as ended:
        cli(["rnu"], prog_name="aiostorm")
    assert ended.value.code == 2
    assert "No such command 'rnu'" in capsys.readouterr().err
