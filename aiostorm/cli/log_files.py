"""The program of `aiostorm logs`: the last lines of log files of this machine, and what comes (see cluster.logs)."""

from __future__ import annotations

import asyncio
import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import click

from ..cluster import check_name
from ..cluster.logs import LogFile, log_files
from .errors import CommandError
from .logs import json_of

if TYPE_CHECKING:
    from ..cluster import Home

PERIOD_S: Final = 0.2


def show_logs(home: Home, name: str, process: str, lines: int, *, follow: bool, as_json: bool = False) -> None:
    """Print the last lines of each process, and with `follow` what comes, until Ctrl-C. CommandError.

    `as_json`: as one document, without `follow`.
    """
    try:
        check_name(name)
    except ValueError as error:
        raise CommandError(str(error)) from error
    folder = home.logs(name)
    found = log_files(folder)
    if not found:
        raise CommandError(_no_logs(home, name))
    if process and process not in found:
        close = difflib.get_close_matches(process, found, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(found)}"
        raise CommandError(f"{name} has no logs of {process!r} on this machine; {hint}")
    shown = {process: found[process]} if process else found
    opened = {each: LogFile(path, lines) for each, path in shown.items()}
    try:
        if as_json:
            click.echo(json_of(name, {each: file.read(at_end=True) for each, file in opened.items()}))
            return
        _print(opened, at_end=not follow, prefixed=not process)
        if follow:
            asyncio.run(_follow(folder, process, opened))
    finally:
        for file in opened.values():
            file.close()


async def _follow(folder: Path, process: str, opened: dict[str, LogFile]) -> None:
    while True:
        await asyncio.sleep(PERIOD_S)
        if not process:
            for name, path in log_files(folder).items():
                if name not in opened:  # of a process that has just been started
                    opened[name] = LogFile(path, None)
        _print(opened, at_end=False, prefixed=not process)


def _print(opened: dict[str, LogFile], *, at_end: bool, prefixed: bool) -> None:
    width = max(map(len, opened))
    for name, file in opened.items():
        prefix = f"{name:<{width}} | " if prefixed else ""
        for line in file.read(at_end=at_end):
            click.echo(f"{prefix}{line}")


def _no_logs(home: Home, name: str) -> str:
    try:
        names = sorted(unquote(each) for each in os.listdir(home.logs("x").parent))
    except OSError:
        names = []
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"there are no logs of {name!r} on this machine; did you mean {close[0]}?"
    there = f"there are logs of: {', '.join(names[:20])}" if names else "there are no logs of any topology"
    return (
        f"there are no logs of {name!r} in {home.path}: {there}. `aiostorm show {name}` says on "
        "which nodes it runs: its logs are there, and `aiostorm logs --nimbus URL` shows those of all nodes"
    )
