"""Simulated processes start and end, and do not outlive their parents."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from aiostorm.runtime import SpawnError
from aiostorm.runtime.processes import Child, ChildLine
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.testing.simulation.spawner import SimSpawner

from .worlds import in_world


class Programs:
    """What can be started, and what it has done."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, tuple[str, ...]]] = []
        self.read: list[bytes] = []
        self.printed: list[str] = []
        self.after: list[str] = []

    async def short(self, process: Process, arguments: Sequence[str]) -> None:
        self.ran.append((process.name, tuple(arguments)))
        self.read.append(process.stdin)

    async def raises(self, process: Process, arguments: Sequence[str]) -> None:
        raise ValueError(arguments[0])

    async def exits(self, process: Process, arguments: Sequence[str]) -> None:
        sys.exit(int(arguments[0]))

    async def stays(self, process: Process, arguments: Sequence[str]) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            if process.alive:
                self.after.append("finally")

    async def polite(self, process: Process, arguments: Sequence[str]) -> None:
        asked = asyncio.Event()
        process.current.on_terminate = asked.set
        await asked.wait()
        await process.store.write("last", b"words")

    def spawner(self, process: Process) -> SimSpawner:
        names = ("short", "raises", "exits", "stays", "polite")
        return SimSpawner(process, {name: getattr(self, name) for name in names}, self.on_line)

    def on_line(self, line: ChildLine) -> None:
        self.printed.append(f"{line.name} {line.stream}: {line.text}")


def spawning(work: Callable[[World, Programs, SimSpawner], Coroutine[Any, Any, None]], seed: int = 0) -> None:
    async def run(world: World) -> None:
        programs = Programs()
        await work(world, programs, programs.spawner(world.driver))

    in_world(run, seed)


async def ended(child: Child) -> int:
    async with asyncio.timeout(5):
        return await child.wait()


def test_a_program_runs_with_its_arguments_and_several_callers_can_wait_for_its_end() -> None:
    async def work(world: World, programs: Programs, spawner: SimSpawner) -> None:
        child = await spawner.spawn("w", ["short", "a", "b c"], stdin=b"a token")
        assert await asyncio.gather(ended(child), ended(child)) == [0, 0]
        assert await ended(child) == 0
        assert programs.ran == [("w", ("a", "b c"))]
        again = await spawner.spawn("w", ["short"])
        assert again.pid != child.pid
        assert (await ended(again), again.name) == (0, "w")
        assert programs.read == [b"a token", b""]
        with pytest.raises(SpawnError, match="65,537 bytes for its standard input"):
            await spawner.spawn("w", ["short"], stdin=bytes(65_537))

    spawning(work)


def test_the_exit_code_says_how_a_program_ended() -> None:
    async def work(world: World, programs: Programs, spawner: SimSpawner) -> None:
        assert await ended(await spawner.spawn("a", ["raises", "no luck"])) == 1
        assert programs.printed == ["a stderr: ValueError: no luck"]
        assert await ended(await spawner.spawn("a", ["exits", "7"])) == 7
        for end, code in (("kill", -9), ("terminate", -15)):
            child = await spawner.spawn("a", ["stays"])
            await asyncio.sleep(1)
            getattr(child, end)()
            assert await ended(child) == code
            getattr(child, end)()
        crashed = await spawner.spawn("a", ["stays"])
        world.processes["a"].crash()
        assert await ended(crashed) == -9
        assert programs.after == []

    spawning(work)


def test_a_program_with_a_handler_for_sigterm_ends_by_itself() -> None:
    async def work(world: World, programs: Programs, spawner: SimSpawner) -> None:
        child = await spawner.spawn("a", ["polite"])
        await asyncio.sleep(1)
        child.terminate()
        assert await ended(child) == 0
        assert world.disk("a").read("last") == b"words"

    spawning(work)


def test_a_frozen_child_is_terminated_when_it_goes_on_and_killed_at_once() -> None:
    async def work(world: World, programs: Programs, spawner: SimSpawner) -> None:
        begin_s = world.now_s
        child = await spawner.spawn("a", ["stays"])
        world.processes["a"].pause(3)
        child.terminate()
        assert await ended(child) == -15
        assert world.now_s >= begin_s + 3
        child = await spawner.spawn("a", ["stays"])
        world.processes["a"].pause(100)
        child.kill()
        assert await ended(child) == -9

    spawning(work)


@pytest.mark.parametrize("how", ["crash", "kill", "ends"])
def test_a_child_dies_with_its_parent(how: str) -> None:
    async def run(world: World) -> None:
        programs = Programs()
        endings: list[asyncio.Event] = []

        async def parent(process: Process) -> None:
            endings.append(asyncio.Event())
            spawner = programs.spawner(process)
            for name in ("a", "b"):
                await spawner.spawn(name, ["stays"])
            await endings[-1].wait()

        process = world.process("parent", parent)
        process.start()
        await asyncio.sleep(1)
        assert world.processes["a"].alive
        if how == "ends":
            process.loop.call_soon(endings[-1].set)
        else:
            getattr(process, how)()
        await asyncio.sleep(0.1)
        assert [name for name, process in world.processes.items() if process.alive] == []
        process.start()  # and the next one may use the names
        await asyncio.sleep(1)
        assert world.processes["b"].incarnation == 2

    in_world(run)


def test_a_program_that_cannot_be_started_is_an_error() -> None:
    async def work(world: World, programs: Programs, spawner: SimSpawner) -> None:
        for arguments in ([], ["worker"], ["short", "a\0b"]):
            with pytest.raises(SpawnError):
                await spawner.spawn("a", arguments)
        await spawner.spawn("a", ["stays"])
        with pytest.raises(SpawnError, match="of that name runs"):
            await spawner.spawn("a", ["short"])

    spawning(work)


def test_a_killed_process_keeps_what_it_wrote_to_its_disk() -> None:
    async def run(world: World) -> None:
        async def main(process: Process) -> None:
            await process.store.write("a", b"not synced")
            await asyncio.sleep(1000)

        for i in range(20):
            process = world.process(f"p{i}", main)
            process.start()
            await asyncio.sleep(1)
            process.kill()
            assert world.disk(f"p{i}").read("a") == b"not synced"

    in_world(run)
