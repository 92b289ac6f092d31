"""W4, actors: ask round trips one after another, sends from one sender, sends from ten. `size` is messages.

Oracle: every reply is the question plus one; the receiver's count and sum are those of the numbers sent.

Limits: `asyncio.Queue`s of the same capacity between asyncio tasks: a ping-pong over two queues, one producer, ten.
"""

from __future__ import annotations

import asyncio

from .cells import Outcome, WrongResultError
from .clocking import Stopwatch, run_in
from .w3 import check

CAPACITY = 1024
"""Messages that a queue or a mailbox holds: the default of actors."""
SENDERS = 10


def check_reply(question: int, reply: object) -> None:
    """WrongResultError unless the reply is the question plus one."""
    if reply != question + 1:
        raise WrongResultError(f"asked {question}, was answered {reply!r}")


def queue_ask(size: int, loop: str) -> Outcome:
    """Limit of ask: a question by one queue, its reply by another."""
    return run_in(loop, _queue_ask(size))  # type: ignore[no-any-return]


def queue_tell(size: int, loop: str, senders: int = 1) -> Outcome:
    """Limit of tell: producers and one consumer at a bounded queue."""
    return run_in(loop, _queue_tell(size, senders))  # type: ignore[no-any-return]


async def _queue_ask(size: int) -> Outcome:
    questions: asyncio.Queue[int] = asyncio.Queue(CAPACITY)
    replies: asyncio.Queue[int] = asyncio.Queue(CAPACITY)

    async def answer() -> None:
        for _ in range(size):
            await replies.put(await questions.get() + 1)

    async with asyncio.TaskGroup() as group:
        group.create_task(answer())
        with Stopwatch() as watch:
            for number in range(size):
                await questions.put(number)
                check_reply(number, await replies.get())
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _queue_tell(size: int, senders: int) -> Outcome:
    queue: asyncio.Queue[int] = asyncio.Queue(CAPACITY)

    async def send(first: int) -> None:
        for number in range(first, size, senders):
            await queue.put(number)

    count = total = 0
    with Stopwatch() as watch:
        async with asyncio.TaskGroup() as group:
            for first in range(senders):
                group.create_task(send(first))
            for _ in range(size):
                number = await queue.get()
                count += 1
                total += number
    check(size, count, total)
    return Outcome(size, watch.wall_s, watch.cpu_s)
