"""The program of `aiostorm top`: running topologies in a terminal.

    control folder ─► RemoteTopologies ─ each second ─► Top (top_view.py) ─► screen │ plain text │ JSON lines

1. On a terminal with rich the screen is drawn again each second and after each key, on the alternate screen, and is put
   back as it was at the end. Without rich, or into a pipe, each second's text follows the one before.
2. Keys are read where the standard input is a terminal; its settings are put back however the command ends.
3. A topology that has ended stays as it was last. With a name, the command ends with it, unless the screen is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from ..cluster import RemoteTopologies, State, find
from ..topology import printable
from ..transport import Security, open_network
from .errors import CommandError
from .top_view import SORTS, Choice, Reading, Top, document, lines

if TYPE_CHECKING:
    from rich.live import Live

PERIOD_S: Final = 1.0

PLAIN_WIDTH: Final = 100
"""Of what is no terminal."""

_KEYS: Final = {"\x1b[A": "k", "\x1b[B": "j", "\x1bOA": "k", "\x1bOB": "j", "h": "?", "\x1b": "q", "\r": "t", "\n": "t"}


def run_top(name: str, *, once: bool, as_json: bool) -> None:
    """Show topologies until it is interrupted, or once. ControlError and CommandError if there is nothing to show."""
    asyncio.run(_Watch(name, once=once, as_json=as_json).run())


def pressed(key: str, choice: Choice) -> Choice | None:
    """What is looked at after a key; None: end."""
    key = _KEYS.get(key, key)
    if key == "q":
        return None if not choice.help else replace(choice, help=False)
    match key:
        case "?":
            return replace(choice, help=not choice.help)
        case "s":
            return replace(choice, sort=SORTS[(SORTS.index(choice.sort) + 1) % len(SORTS)])
        case "n":
            return replace(choice, topology=choice.topology + 1, component=0)
        case "j" | "k":
            return replace(choice, component=choice.component + (1 if key == "j" else -1))
        case "t":
            return replace(choice, tasks=not choice.tasks)
    return choice


class _Watch:
    """One run of the command."""

    def __init__(self, name: str, *, once: bool, as_json: bool) -> None:
        self._name = name
        self._once = once
        self._as_json = as_json
        self._choice = Choice()
        self._readings: list[Reading] = []
        self._stop = asyncio.Event()
        self._draw: Callable[[], None] = self._print

    async def run(self) -> None:
        """Until a key, the end of what is named, or an interrupt."""
        async with open_network("client", Security()) as network:
            if self._name:
                find(self._name)
            remote, top = RemoteTopologies(network, self._name), Top()
            problems = await remote.scan()
            if not remote.topologies and (self._name or self._once):
                raise CommandError("; ".join(problems) or "no topology of yours runs here with `aiostorm run`")
            for problem in problems:
                click.echo(printable(problem), err=True)
            top.take(remote.topologies)
            with self._screen() as screen:
                while not await self._pause():
                    await remote.scan()
                    await remote.refresh(PERIOD_S / 2)
                    self._readings = top.take(remote.topologies)
                    self._draw()
                    over = all(one.state in (State.KILLED, State.FAILED) for one in remote.topologies.values())
                    if self._once or (self._name and over and not screen):
                        return

    async def _pause(self) -> bool:
        """Wait for the next second. True if a key ended it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PERIOD_S):
                await self._stop.wait()
        return self._stop.is_set()

    @contextlib.contextmanager
    def _screen(self) -> Iterator[bool]:
        """Draws on the alternate screen and reads keys, if this is a terminal with rich; else it prints. Which?"""
        live = None if self._once or self._as_json or not sys.stdout.isatty() else _live()
        if live is None:
            yield False
            return
        with live, _keys(self._pressed):
            self._draw = lambda: _show(live, self._readings, self._choice)
            self._draw()
            yield True

    def _pressed(self, keys: str) -> None:
        choice = pressed(keys, self._choice)
        if choice is None:
            self._stop.set()
            return
        self._choice = choice
        self._draw()

    def _print(self) -> None:
        if self._as_json:
            click.echo(json.dumps(document(self._readings), indent=2 if self._once else None, ensure_ascii=False))
            return
        for i in range(max(1, len(self._readings))):
            shown = self._readings[i : i + 1]
            click.echo("\n".join(text for text, _ in lines(shown, self._choice, PLAIN_WIDTH)) + "\n")


def _live() -> Live | None:
    """None without rich, or if the terminal cannot move its cursor."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        return None
    console = Console()
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    return Live(console=console, screen=True, auto_refresh=False)


def _show(live: Live, readings: list[Reading], choice: Choice) -> None:
    from rich.text import Text

    width, height = live.console.size
    text = Text(no_wrap=True, overflow="crop")
    shown = lines(readings, choice, width)
    for line, style in shown[: height - 1]:
        text.append(line + "\n", style=style or None)
    keys = f" q end  s sort: {choice.sort}  ↑↓ component  t tasks  n next topology  ? help"
    text.append("\n" * max(0, height - 1 - len(shown)) + keys[:width], style="dim")
    live.update(text, refresh=True)


@contextlib.contextmanager
def _keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call it with each key, while in the block. Nothing is read if the standard input is no terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, lambda: pressed(os.read(number, 16).decode(errors="replace") or "q"))
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
