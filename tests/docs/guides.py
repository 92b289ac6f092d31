"""A page as what its reader does: files that are made, programs that are run, commands that are typed.

1. A block of `python`, `ini`, `toml` or `yaml` is a file. Its first line names it (`# detector.py`); blocks that name
   the same file are parts of it, in their order (without that line, where there are several).
2. A `text` block right below a Python block is what the program prints. Files named `test_…` are run by pytest.
3. A `console` block has commands, one a line. A `text` block right below it is what they print, in this order, on the
   standard output: without numbers, since times differ, and `…` stands for what is not shown. Without a `text` block,
   and without a `>`, they are not run, but the options of `aiostorm` are there.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import click

from aiostorm.cli import cli

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<body>.*?)^(?P=indent)```\n"
    r"(?:\n(?P=indent)```text\n(?P<prints>.*?)^(?P=indent)```\n)?",
    re.MULTILINE | re.DOTALL,
)
_NAME = re.compile(r"# ([\w.]+)\n")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
FILES = ("python", "ini", "toml", "yaml")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block, and what the page says that it prints."""

    language: str
    body: str
    prints: str | None

    @property
    def file(self) -> str:
        """The file that it is, or is a part of."""
        named = _NAME.match(self.body)
        assert named, f"the first line of a {self.language} block names its file: {self.body[:60]!r}"
        return named[1]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, but for drawings and pieces of output."""
    found = [
        Block(m["language"], dedent(m["body"]), None if m["prints"] is None else dedent(m["prints"]))
        for m in _FENCE.finditer(page.read_text(encoding="utf-8"))
    ]
    return [block for block in found if block.language in (*FILES, "console")]


def files(page: Path) -> dict[str, str]:
    """The files that a page makes."""
    parts: dict[str, list[str]] = {}
    for block in blocks(page):
        if block.language in FILES:
            parts.setdefault(block.file, []).append(block.body)
    return {
        name: bodies[0] if len(bodies) == 1 else "\n\n\n".join(_NAME.sub("", body, count=1) for body in bodies)
        for name, bodies in parts.items()
    }


def typed(block: Block) -> list[str]:
    """The commands of a console block."""
    lines = block.body.replace("\\\n", "").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.strip() and not line.startswith("#")]


def try_block(block: Block, folder: Path) -> None:
    """Run what the page says that a reader runs, and compare what is printed."""
    if block.language == "console":
        commands = typed(block)
        if block.prints is None and not any(">" in command for command in commands):
            for command in commands:
                if command.startswith("aiostorm "):
                    accepts(command)
            return
        printed = "".join(run(command, folder) for command in commands)
        are_in(block.prints or "", printed)
    elif block.prints is not None:
        assert run(f"python {block.file}", folder) == block.prints


def run(command: str, folder: Path) -> str:
    """What a command prints. There is no shell: the standard output may go to a file, and no more."""
    words = shlex.split(command, comments=True)
    words, to = (words[:-2], folder / words[-1]) if ">" in words else (words, None)
    name, *arguments = words
    programs = {"python": [], "aiostorm": ["-m", "aiostorm"], "pytest": ["-m", "pytest"]}
    assert name in programs, f"{command}: the tests run python, aiostorm and pytest"
    done = subprocess.run(
        [sys.executable, "-W", "error", *programs[name], *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    if to is not None:
        to.write_text(done.stdout, encoding="utf-8")
        return ""
    return done.stdout


def accepts(command: str) -> None:
    """This is a command of `aiostorm`, with options that it has."""
    name, *arguments = shlex.split(command, comments=True)
    found: click.Command = cli
    while isinstance(found, click.Group):
        name, *arguments = arguments
        command = found.get_command(click.Context(found), name)
        assert command is not None, f"{name}: no such command"
        found = command
    with found.make_context(name, arguments):
        pass


def are_in(shown: str, printed: str) -> None:
    """All lines of `shown` but those of dots are lines of `printed`, in this order, whatever their numbers are."""
    lines = iter(_plain(line) for line in printed.splitlines())
    for line in shown.splitlines():
        if line.strip() != "…":
            assert _plain(line) in lines, f"not there, or not there any more: {line}\n{printed}"


def _plain(line: str) -> str:
    return re.sub(r"\s+", " ", _NUMBER.sub("#", line)).strip()
