"""SimSpawner: a simulated process starts others: programs by name, as `python -m …` starts them by module.

    spawner = SimSpawner(process, {"worker": worker})        child = await spawner.spawn("worker-1", ["worker", "6700"])
    async def worker(process, arguments): …                  code = await child.wait()

1. The first argument names the program. The child's name is the process's name in the world: its address, and its disk,
   which the next child of that name uses again. Two of one name do not run at once.
2. A program that returns ends with code 0; one that raises prints a line to `on_line` and ends with 1, or with the code
   of its SystemExit. `kill` and a crash give -9. `terminate` gives -15, unless the program has set
   `process.current.on_terminate`. A frozen process is terminated when it continues, and killed at once.
3. A child dies with its parent, a moment later (see parent watch), however the parent ended.
4. Its input is `process.stdin`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...runtime import SpawnError
from ...runtime.processes import Child, ChildLine, check_stdin
from .process import Process

if TYPE_CHECKING:
    from .incarnation import Incarnation

START_S: Final = 0.2
"""The longest time that a process needs to start."""

PARENT_WATCH_S: Final = 0.01
"""The longest time between the death of a parent and that of its child."""

Program = Callable[[Process, Sequence[str]], Coroutine[Any, Any, None]]
KILLED: Final = -9
TERMINATED: Final = -15


class SimSpawner:
    """The `Spawner` of one incarnation. `on_line` is called with what a child prints: the error that ended it."""

    def __init__(
        self,
        process: Process,
        programs: Mapping[str, Program],
        on_line: Callable[[ChildLine], None] = lambda line: None,
    ) -> None:
        self._parent = process.current
        self._programs = dict(programs)
        self._on_line = on_line
        self._chance = process.world.chance.stream(f"spawns {process.name}.{process.incarnation}")

    async def spawn(self, name: str, arguments: Sequence[str], *, stdin: bytes = b"") -> Child:
        program = self._programs.get(arguments[0]) if arguments else None
        if program is None:
            raise SpawnError(f"{name}: no program {arguments[:1]}; there are: {', '.join(self._programs)}")
        if any("\0" in word for word in arguments):
            raise SpawnError(f"{name}: an argument has a NUL in it")
        check_stdin(name, stdin)
        if not self._parent.alive:
            raise SpawnError(f"{name}: the process that starts it has ended")
        world = self._parent.process.world
        process = world.processes.get(name)
        if process is not None and process.alive:
            raise SpawnError(f"{name}: a process of that name runs, and has the same address in a simulated world")
        child = SimChild(self._parent, world.new_pid(), self._on_line, self._chance.random() * START_S)
        main = child.running(program, tuple(arguments[1:]))
        if process is None:
            process = world.process(name, main)
        else:
            process.main = main
        process.stdin = stdin
        process.start()
        child.begin(process, self._chance.random() * PARENT_WATCH_S)
        return child


class SimChild:
    """A `Child`."""

    def __init__(self, parent: Incarnation, pid: int, on_line: Callable[[ChildLine], None], start_s: float) -> None:
        self.pid = pid
        self._parent = parent
        self._on_line = on_line
        self._start_s = start_s
        self._child: Incarnation
        self._code = KILLED  # unless it ends by itself
        self._ended = False
        self._waiters: list[asyncio.Future[int]] = []

    @property
    def name(self) -> str:
        return self._child.process.name

    async def wait(self) -> int:
        if not self._ended:
            waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return self._code

    def terminate(self) -> None:
        child = self._child
        if child.alive and child.on_terminate is not None:
            child.loop.call_soon(child.on_terminate)
        elif child.alive:
            child.process.world.call_at(child.process.processor.paused_until_s, self._die, TERMINATED)

    def kill(self) -> None:
        self._die(KILLED)

    # -- what the spawner does ---------------------------------------------------------------------------------------

    def running(self, program: Program, arguments: Sequence[str]) -> Callable[[Process], Coroutine[Any, Any, None]]:
        """The program, and what its errors mean."""

        async def main(process: Process) -> None:
            await asyncio.sleep(self._start_s)
            try:
                await program(process, arguments)
                self._code = 0
            except SystemExit as error:
                self._code = error.code if isinstance(error.code, int) else int(error.code is not None)
            except Exception as error:
                self._code = 1
                self._print(f"{type(error).__name__}: {error}")

        return main

    def begin(self, process: Process, parent_watch_s: float) -> None:
        """The child runs."""
        self._child = process.current
        self._child.at_death.append(self._died)
        world = process.world

        def parent_died(crashed: bool) -> None:
            if crashed:  # the machine of both
                if self._child.alive:
                    self._code = KILLED
                    process.crash("dies with its parent's machine")
            else:
                world.call_at(world.now_s + parent_watch_s, self._die, KILLED)

        self._parent.at_death.append(parent_died)

    def _die(self, code: int) -> None:
        if self._child.alive:
            self._code = code
            self._child.process.kill("is killed" if code == KILLED else "is terminated")

    def _died(self, crashed: bool) -> None:
        self._ended = True
        if crashed:
            self._code = KILLED
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(self._code)

    def _print(self, text: str) -> None:
        parent = self._parent
        if parent.alive:
            parent.loop.call_soon(self._on_line, ChildLine(self.name, self.pid, "stderr", text))
