"""pykka: ThreadingActors. W1: a split actor and four count actors; W4: ask and tell; W6: three actors in a row.

An actor is a thread with an unbounded queue; a message travels alone. No guarantee beyond the process.
"""

from __future__ import annotations

import time
from typing import Any

import pykka

from ..cells import Outcome
from ..clocking import Stopwatch
from ..w1 import corpus
from ..w3 import check
from ..w4 import check_reply
from ..w6 import Arrivals, ThreadPace

COUNT_TASKS = 4


class Count(pykka.ThreadingActor):
    """Counts words; answers None with its table."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def on_receive(self, message: str | None) -> dict[str, int] | None:
        if message is None:
            return self.counts
        self.counts[message] = self.counts.get(message, 0) + 1
        return None


class Split(pykka.ThreadingActor):
    """Sends each word of a sentence to the counter of its hash; answers None when it receives None."""

    def __init__(self, counters: list[pykka.ActorRef[Any]]) -> None:
        super().__init__()
        self.counters = counters

    def on_receive(self, message: str | None) -> None:
        if message is not None:
            for word in message.split():
                self.counters[hash(word) % COUNT_TASKS].tell(word)


class Answer(pykka.ThreadingActor):
    """Answers with one more."""

    def on_receive(self, message: int) -> int:
        return message + 1


class Receiver(pykka.ThreadingActor):
    """Adds up; answers None with count and sum."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.total = 0

    def on_receive(self, message: int | None) -> tuple[int, int] | None:
        if message is None:
            return self.count, self.total
        self.count += 1
        self.total += message
        return None


class Identity(pykka.ThreadingActor):
    """Hands on what it gets."""

    def __init__(self, following: pykka.ActorRef[Any]) -> None:
        super().__init__()
        self.following = following

    def on_receive(self, message: Any) -> None:
        self.following.tell(message)


class Arrive(pykka.ThreadingActor):
    """The end of the way; answers None when everything has come."""

    def __init__(self, arrivals: Arrivals) -> None:
        super().__init__()
        self.arrivals = arrivals

    def on_receive(self, message: tuple[int, float] | None) -> None:
        if message is not None:
            self.arrivals.add(*message)


def word_count(size: int) -> Outcome:
    """W1, until every counter has answered."""
    given = corpus(size)
    try:
        counters = [Count.start() for _ in range(COUNT_TASKS)]
        split = Split.start(counters)
        with Stopwatch() as watch:
            for sentence in given.sentences:
                split.tell(sentence)
            split.ask(None)
            tables = [counter.ask(None) for counter in counters]
    finally:
        pykka.ActorRegistry.stop_all()
    given.check({word: count for table in tables for word, count in table.items()})
    return given.outcome(watch)


def ask(size: int) -> Outcome:
    """W4: round trips, one after the other."""
    try:
        actor = Answer.start()
        with Stopwatch() as watch:
            for number in range(size):
                check_reply(number, actor.ask(number))
    finally:
        pykka.ActorRegistry.stop_all()
    return Outcome(size, watch.wall_s, watch.cpu_s)


def tell(size: int) -> Outcome:
    """W4: messages from this thread to one actor."""
    try:
        actor = Receiver.start()
        with Stopwatch() as watch:
            for number in range(size):
                actor.tell(number)
            seen = actor.ask(None)
    finally:
        pykka.ActorRegistry.stop_all()
    check(size, *seen)
    return Outcome(size, watch.wall_s, watch.cpu_s)


def latency(size: int) -> Outcome:
    """W6, paced by this thread."""
    arrivals = Arrivals()
    try:
        end = Arrive.start(arrivals)
        second = Identity.start(end)
        first = Identity.start(second)
        pace = ThreadPace(size)
        with Stopwatch() as watch:
            while not pace.over:
                for number in pace.wait():
                    first.tell((number, time.perf_counter()))
            for actor in (first, second, end):  # each is through with what came before
                actor.stop(block=True)
    finally:
        pykka.ActorRegistry.stop_all()
    return arrivals.outcome(size, watch, pace)
