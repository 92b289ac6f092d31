"""A small world of actors, and an end of some kind at every possible step of it.

Whatever is interrupted wherever: everything ends, nothing is left over, each watcher is notified once, each caller gets
something, and each message that was accepted was received once or is one dead letter.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from aiostorm.actors import (
    Actor,
    ActorSystem,
    AskFailedError,
    AskTimeoutError,
    DeadLetter,
    Mailbox,
    MailboxClosedError,
    Ref,
    RestartPolicy,
    Terminated,
)
from aiostorm.testing import VirtualTimeLoop

from .sample_actors import Watcher, steps

EVERY_STEP = [*range(40), *range(40, 300, 7)]
"""The world lives for some 300. All 400 were run once, and pass."""
POLICY = RestartPolicy(max_restarts=100, backoff_s=(0.0, 0.1, 0.3))


class World:
    """What happened to each message: accepted (its sender knows), unsure (the sender was cancelled), received, lost."""

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        self.unsure: set[str] = set()
        self.received: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.answers: list[str] = []
        self.workers: list[Worker] = []

    def dead_letter(self, letter: DeadLetter) -> None:
        if isinstance(letter.message, str) and letter.message != "question":
            self.lost[letter.message] += 1

    async def send(self, ref: Ref, message: str) -> bool:
        """False when the message was refused: the sender must stop."""
        try:
            await ref.tell(message)
        except MailboxClosedError:
            return False
        except asyncio.CancelledError:
            self.unsure.add(message)
            raise
        self.accepted[message] += 1
        return True

    def check(self) -> None:
        # `stopped` is for an incarnation that did start.
        assert {worker.state for worker in self.workers} <= {"new", "starting", "stopped"}
        ends = self.received + self.lost
        assert set(ends) <= set(self.accepted) | self.unsure
        assert all(ends[message] == 1 for message in self.accepted)
        assert all(ends[message] <= 1 for message in self.unsure)


class Worker(Actor):
    """Waits, fails now and then, has a timer, passes some work on to a child."""

    def __init__(self, world: World, child: bool) -> None:
        self.world = world
        self.has_child = child
        self.state = "new"
        world.workers.append(self)

    async def started(self) -> None:
        self.state = "starting"
        if self.has_child:
            self.child = self.spawn(Worker(self.world, child=False), "child", policy=POLICY, mailbox=Mailbox(1))
        self.every(0.05, "tick")
        await asyncio.sleep(0.01)
        self.state = "up"

    async def receive(self, message: Any) -> Any:
        if message == "tick" or isinstance(message, Terminated):
            return None
        if message == "question":
            await asyncio.sleep(0.01)
            return "answer"
        self.world.received[message] += 1
        if self.has_child and message.endswith(("2", "5")):
            await self.world.send(self.child, f"child of {message}")
        await asyncio.sleep(0.01)
        if message.endswith("3"):
            raise ValueError(message)
        return None

    async def stopped(self) -> None:
        self.state = "stopped"
        await asyncio.sleep(0.01)


async def live(world: World, system: ActorSystem, worker: Ref) -> None:
    async def send_all(sender: int) -> None:
        for number in range(6):
            if not await world.send(worker, f"{sender}.{number}"):
                return

    async def ask() -> None:
        for _ in range(4):
            try:
                world.answers.append(await worker.ask("question", timeout_s=0.08))
            except (AskTimeoutError, AskFailedError, MailboxClosedError) as error:
                world.answers.append(type(error).__name__)

    async with asyncio.TaskGroup() as group:
        for sender in range(3):
            group.create_task(send_all(sender))
        group.create_task(ask())


def in_world(
    interfere: Callable[[ActorSystem, Ref], Coroutine[Any, Any, None]], *, drain: bool = True, answered: bool = True
) -> World:
    """Run the world, with an interference."""
    world = World()
    watcher = Watcher()

    async def work() -> None:
        system = ActorSystem(stop_timeout_s=5, kill_timeout_s=1)
        system.dead_letters.listener = world.dead_letter
        system.on_failure = lambda path, error, decision: None
        await system.start()
        worker = system.spawn(Worker(world, child=True), "worker", policy=POLICY, mailbox=Mailbox(3))
        watcher.refs = (worker,)
        watching = system.spawn(watcher, "watcher")
        life = asyncio.create_task(live(world, system, worker))
        meddler = asyncio.create_task(interfere(system, worker))
        await asyncio.wait((life,))
        await asyncio.wait((meddler,))
        assert meddler.exception() is None
        if not life.cancelled():
            assert life.exception() is None
            assert len(world.answers) == 4 or not answered
        watched_to_the_end = watching.is_alive and not worker.is_alive
        await steps(3)
        await system.stop(drain=drain)
        assert not worker.is_alive
        assert system.actors == 0
        assert system.failure is None
        if watched_to_the_end:
            assert [notice.ref for notice in watcher.notices] == [worker]
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        assert all(handle.cancelled() for handle in asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())
    world.check()
    return world


async def turns(count: int) -> None:
    """Let the world run for a number of iterations of the loop, time included."""
    for turn in range(count):
        await asyncio.sleep(0.005 if turn % 2 else 0)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_left_alone_everything_is_received() -> None:
    async def nothing(system: ActorSystem, worker: Ref) -> None:
        await steps(1)

    world = in_world(nothing)
    assert not world.lost
    assert sum(world.received.values()) == 3 * 6 + 3 * 2
    assert set(world.answers) <= {"answer", "AskTimeoutError"}


@pytest.mark.parametrize("end", ["kill", "kill twice", "stop", "stop then kill", "kill the child", "stop the child"])
def test_an_end_at_every_step(end: str) -> None:
    outcomes: Counter[str] = Counter()
    for step in EVERY_STEP:

        async def interfere(system: ActorSystem, worker: Ref, step: int = step) -> None:
            await turns(step)
            target = worker
            if end.endswith("child"):
                children = worker.cell.children
                if not children:
                    return
                target = children.youngest.ref
            if end.startswith("kill"):
                target.kill()
            else:
                target.stop()
            if end == "kill twice":
                await steps(step % 5)
                target.kill()
            elif end == "stop then kill":
                await turns(step % 7)
                target.kill()
            await target.wait_terminated()

        world = in_world(interfere)
        outcomes.update(received=sum(world.received.values()), lost=sum(world.lost.values()))
    assert outcomes["received"] > 0
    if end in ("kill", "kill twice", "stop then kill"):
        assert outcomes["lost"] > 0


@pytest.mark.parametrize("drain", [True, False])
def test_the_system_ends_at_every_step(drain: bool) -> None:
    for step in EVERY_STEP:

        async def interfere(system: ActorSystem, worker: Ref, step: int = step) -> None:
            await turns(step)
            await system.stop(drain=drain)

        in_world(interfere, drain=drain)


def test_senders_and_callers_are_cancelled_at_every_step() -> None:
    for step in EVERY_STEP:

        async def interfere(system: ActorSystem, worker: Ref, step: int = step) -> None:
            await turns(step)
            for task in asyncio.all_tasks():
                if getattr(task.get_coro(), "__name__", "") in ("send_all", "ask"):
                    task.cancel()

        in_world(interfere, answered=False)


def test_the_end_itself_is_cancelled_at_every_step() -> None:
    for step in EVERY_STEP:

        async def interfere(system: ActorSystem, worker: Ref, step: int = step) -> None:
            await turns(10)
            end = asyncio.create_task(system.stop())
            await turns(1 + step // 4)
            end.cancel()
            await steps(step % 4)
            end.cancel()
            await asyncio.wait((end,))
            assert system.actors == 0

        in_world(interfere)
