"""The program of `aiostorm logs --nimbus`: the lines of a topology's processes, on whichever nodes they are.

    topology ─► its nodes ─► for each: the next lines after its cursors, through nimbus ─► printed ─► again, with -f

1. The cursors are kept here, and nothing of it elsewhere. The next lines are asked for when the last ones are printed:
   a slow reader holds one piece, nowhere more.
2. A node that is away is named once, and asked again each AWAY_S; what it has logged meanwhile is shown when it is
   back. So it is with nimbus.
3. With -f it ends when the topology has ended, after its last lines.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from ..cluster.coordination import UnavailableError
from ..cluster.logs import LogsAsked, NodeAwayError
from ..cluster.nimbus import OrderError
from .errors import CommandError, UnavailableCommandError

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..cluster.logs import ProcessLines

PERIOD_S: Final = 0.5
PLACES_S: Final = 5.0
"""How often it is looked where a topology that is followed runs."""

AWAY_S: Final = 2.0
MAX_NODES: Final = 100
"""On so many nodes it is looked for the logs of a topology that has ended."""


@dataclass(slots=True)
class _Node:
    """A node with logs. `due_s`: when it is asked again."""

    name: str
    cursors: dict[str, str] = field(default_factory=dict)
    answered: bool = False
    away: str = ""
    due_s: float = 0.0


async def show_logs(
    cluster: Cluster, name: str, process: str, lines: int, *, follow: bool, as_json: bool = False
) -> int:
    """Print the last lines of each process, and with `follow` what comes. The exit code; CommandError."""
    reading = _Reading(cluster, LogsAsked(name, process, lines=lines), follow, as_json)
    await reading.run()
    if as_json:
        document = {"topology": name, "lines": reading.kept, "away": reading.away}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    if reading.found or reading.ended:
        return 0
    if reading.away:
        raise UnavailableCommandError(f"there is no answer of {', '.join(reading.away)}: try again")
    what = f"{name} has no logs of {process!r}" if process else f"there are no logs of {name!r}"
    raise CommandError(f"{what}: `aiostorm show {name}` says which processes it has")


class _Reading:
    """What is read of one topology."""

    def __init__(self, cluster: Cluster, asked: LogsAsked, follow: bool, as_json: bool) -> None:
        self.kept: list[dict[str, str]] = []
        self.found = False
        self.ended = False
        self._cluster = cluster
        self._asked = asked
        self._follow = follow
        self._as_json = as_json
        self._nodes: dict[str, _Node] = {}
        self._places_s = 0.0
        self._no_nimbus = ""
        self._width = 0

    @property
    def away(self) -> dict[str, str]:
        """Nodes that did not answer the last time, and why."""
        return {node.name: node.away for node in self._nodes.values() if node.away}

    async def run(self) -> None:
        """Read to the end. OrderError if there is no such topology, and never was; UnavailableError; DeniedError."""
        now_s = asyncio.get_running_loop().time
        await self._look()
        while True:
            more = False
            try:
                if self._follow and not self.ended and now_s() >= self._places_s:
                    await self._look()
                for node in list(self._nodes.values()):
                    if now_s() >= node.due_s:
                        more |= await self._read(node)
                self._say_nimbus("")
            except UnavailableError as error:
                if not self._follow:
                    raise
                self._say_nimbus(str(error))
            if not more and not self._follow:
                return
            if not more and self.ended and not self._no_nimbus:
                click.echo(f"{self._asked.name} has ended", err=True)
                return
            if not more:
                await asyncio.sleep(PERIOD_S)

    async def _look(self) -> None:
        """On which nodes is it now?"""
        name = self._asked.name
        self._places_s = asyncio.get_running_loop().time() + PLACES_S
        try:
            names = set((await self._cluster.topology(name)).where.values())
        except OrderError:
            self.ended = self._follow and bool(self._nodes)
            if self._nodes:
                return
            names = {node.name for node in (await self._cluster.nodes())[:MAX_NODES]}
            found = [one for one in sorted(names) if await self._has(one)]
            if not found:
                raise
            names, self._follow = set(found), False
        for each in sorted(names - self._nodes.keys()):
            self._nodes[each] = _Node(each)

    async def _has(self, node: str) -> bool:
        """Are there logs of it on this node?"""
        try:
            return bool(await self._cluster.node_logs(node, LogsAsked(self._asked.name, lines=0)))
        except NodeAwayError as error:
            click.echo(f"{node}: {error}", err=True)
            return False

    async def _read(self, node: _Node) -> bool:
        """Print the next lines of a node. Are there more?"""
        lines = None if node.answered else self._asked.lines
        asked = LogsAsked(self._asked.name, self._asked.process, node.cursors, lines, not self._follow)
        try:
            found = await self._cluster.node_logs(node.name, asked)
        except NodeAwayError as error:
            if not node.away:
                click.echo(f"{node.name}: {error}{'; goes on when it is back' if self._follow else ''}", err=True)
            node.away, node.due_s = str(error), asyncio.get_running_loop().time() + AWAY_S
            return False
        if node.away:
            click.echo(f"{node.name} is back", err=True)
        node.answered, node.away = True, ""
        self.found = self.found or bool(found)
        for piece in found:
            if piece.cursor:
                node.cursors[piece.process] = piece.cursor
            self._print(node.name, piece)
        return any(piece.more for piece in found)

    def _print(self, node: str, piece: ProcessLines) -> None:
        if self._as_json:
            self.kept += [{"process": piece.process, "node": node, "line": line} for line in piece.lines]
            return
        several = len(self._nodes) > 1
        label = f"{piece.process}@{node}" if several else piece.process
        self._width = max(self._width, len(label))
        if piece.missed:
            click.echo(f"{label}: its log was cut; lines may be missing here", err=True)
        for line in piece.lines:
            click.echo(line if self._asked.process and not several else f"{label:<{self._width}} | {line}")

    def _say_nimbus(self, why: str) -> None:
        if why and not self._no_nimbus:
            click.echo(f"{why}; goes on when it is back", err=True)
        elif self._no_nimbus and not why:
            click.echo("nimbus is back", err=True)
        self._no_nimbus = why
