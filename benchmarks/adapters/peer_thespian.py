"""thespian: the simpleSystemBase, which runs all actors in this process and thread. W1 and W4.

Its other bases put every actor into a process of its own. A message travels alone; no guarantee beyond the process.
`tell` to this base runs the actor before it returns, so there is no queue to fill. It cannot do W6: its actors run only
while another actor sends or asks, so there is nothing to wait for.
"""

from __future__ import annotations

from typing import Any

from thespian.actors import Actor, ActorAddress, ActorSystem

from ..cells import Outcome
from ..clocking import Stopwatch
from ..w1 import corpus
from ..w3 import check
from ..w4 import check_reply

COUNT_TASKS = 4
REPORT = "report"
"""What an actor answers with all it knows. (A word of the corpus has a digit.)"""


class Count(Actor):
    """Counts words."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:  # noqa: N802
        if message == REPORT:
            self.send(sender, self.counts)
        elif isinstance(message, str):
            self.counts[message] = self.counts.get(message, 0) + 1


class Split(Actor):
    """Sends the words of a sentence to the counters, each to the one of its hash. First it receives the counters."""

    counters: list[ActorAddress]

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:  # noqa: N802
        if isinstance(message, str):
            for word in message.split():
                self.send(self.counters[hash(word) % COUNT_TASKS], word)
        elif isinstance(message, list):
            self.counters = message


class Answer(Actor):
    """Answers with one more."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:  # noqa: N802
        if isinstance(message, int):
            self.send(sender, message + 1)


class Receiver(Actor):
    """Adds up."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.total = 0

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:  # noqa: N802
        if message == REPORT:
            self.send(sender, (self.count, self.total))
        elif isinstance(message, int):
            self.count += 1
            self.total += message


def word_count(size: int) -> Outcome:
    """W1, until every counter has answered."""
    given = corpus(size)
    system = ActorSystem("simpleSystemBase")
    try:
        counters = [system.createActor(Count) for _ in range(COUNT_TASKS)]
        split = system.createActor(Split)
        system.tell(split, counters)
        with Stopwatch() as watch:
            for sentence in given.sentences:
                system.tell(split, sentence)
            tables = [system.ask(counter, REPORT) for counter in counters]
    finally:
        system.shutdown()
    given.check({word: count for table in tables for word, count in table.items()})
    return given.outcome(watch)


def ask(size: int) -> Outcome:
    """W4: round trips, one after the other."""
    system = ActorSystem("simpleSystemBase")
    try:
        actor = system.createActor(Answer)
        with Stopwatch() as watch:
            for number in range(size):
                check_reply(number, system.ask(actor, number))
    finally:
        system.shutdown()
    return Outcome(size, watch.wall_s, watch.cpu_s)


def tell(size: int) -> Outcome:
    """W4: messages to one actor."""
    system = ActorSystem("simpleSystemBase")
    try:
        actor = system.createActor(Receiver)
        with Stopwatch() as watch:
            for number in range(size):
                system.tell(actor, number)
            seen = system.ask(actor, REPORT)
    finally:
        system.shutdown()
    check(size, *seen)
    return Outcome(size, watch.wall_s, watch.cpu_s)
