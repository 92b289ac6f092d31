"""Dispatcher: data makes a step ready; a chain of steps takes one round of the loop; others get the loop too."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from aiostorm.actors import EMPTY, Actor, ActorSystem, Mailbox, Stepper
from aiostorm.actors.dispatcher import MAX_STEPS

from .sample_actors import steps


class Stage(Actor):
    """Takes data in steps, one message each, and gives each to the next stage. Counts how often its task woke up."""

    def __init__(self, give: Callable[[Any], Any]) -> None:
        self.give = give
        self.woken = 0
        self.controls: list[Any] = []

    async def run(self) -> None:
        self.own_stepper: Stepper = self.stepper(self.step)
        while True:
            while (message := self.mailbox.take_control()) is not EMPTY:
                self.controls.append(message)
                if message == "end":
                    return
            await self.mailbox.wait_steps(self.own_stepper, ready=self.mailbox.has_data)
            self.woken += 1

    def step(self) -> None:
        self.give(self.mailbox.take_data())
        if self.mailbox.has_data:
            self.own_stepper.ready()


async def test_a_message_goes_through_a_chain_of_steps_in_one_round() -> None:
    arrived: list[Any] = []
    async with ActorSystem() as system:
        boxes = [Mailbox(8) for _ in range(3)]
        stages = [Stage(boxes[1].offer), Stage(boxes[2].offer), Stage(arrived.append)]
        for stage, box in zip(stages, boxes, strict=True):
            system.spawn(stage, mailbox=box)
        await steps(3)
        boxes[0].offer("a")
        boxes[0].offer("b")
        assert not arrived  # never within the call that sends
        await asyncio.sleep(0)
        assert arrived == ["a", "b"]
        assert [stage.woken for stage in stages] == [0, 0, 0]
        for box in boxes:
            box.post("end")


async def test_control_and_wake_wake_the_task_and_no_step_runs_while_it_runs() -> None:
    taken: list[Any] = []
    async with ActorSystem() as system:
        box = Mailbox(8)
        stage = Stage(taken.append)
        system.spawn(stage, mailbox=box)
        await steps(3)
        box.post("control")
        box.offer("data")
        assert not box.takes_steps()  # the task is on its way
        await steps(2)
        assert (stage.controls, taken) == (["control"], ["data"])
        box.wake()
        await steps(2)
        assert stage.woken == 2
        box.post("end")


async def test_other_asyncio_tasks_get_the_loop_after_a_number_of_steps() -> None:
    rounds: list[int] = []
    taken: list[Any] = []

    async with ActorSystem() as system:
        box = Mailbox(10 * MAX_STEPS)
        system.spawn(Stage(taken.append), mailbox=box)
        await steps(3)
        for number in range(3 * MAX_STEPS):
            box.offer(number)
        while len(taken) < 3 * MAX_STEPS:
            await asyncio.sleep(0)
            rounds.append(len(taken))
        assert rounds == [MAX_STEPS, 2 * MAX_STEPS, 3 * MAX_STEPS]
        box.post("end")


async def test_a_step_runs_as_the_task_of_its_actor_and_in_its_context() -> None:
    found: list[Any] = []
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    class Asks(Stage):
        def started(self) -> None:
            variable.set("its own")
            found.append(asyncio.current_task())

    async with ActorSystem() as system:
        box = Mailbox(8)
        stage = Asks(lambda _: found.extend((asyncio.current_task(), variable.get())))
        system.spawn(stage, mailbox=box)
        await steps(3)
        box.offer("data")
        await asyncio.sleep(0)
        assert found[0] is not None
        assert found == [found[0], found[0], "its own"]
        assert variable.get() == "none"
        box.post("end")


async def test_a_step_that_is_ready_when_its_actor_is_killed_does_not_run() -> None:
    taken: list[Any] = []
    async with ActorSystem() as system:
        box = Mailbox(8)
        ref = system.spawn(Stage(taken.append), mailbox=box)
        await steps(3)
        box.offer("data")
        ref.kill()
        await ref.wait_terminated()
        assert not taken
        assert [letter.message for letter in system.dead_letters.last] == ["data"]


async def test_callbacks_for_the_end_of_a_round_run_in_this_round_or_the_next() -> None:
    done: list[str] = []

    def first() -> None:
        done.append("first")
        system.dispatcher.after_round(lambda: done.append("second"))

    async with ActorSystem() as system:
        system.dispatcher.after_round(first)
        assert not done
        await asyncio.sleep(0)
        assert done == ["first"]
        await asyncio.sleep(0)
        assert done == ["first", "second"]
