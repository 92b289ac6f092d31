"""The writer in an executor, over connections that are lost at a bad moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiostorm.spark.executors.client import ChunkWriter
from aiostorm.spark.executors.messages import Done, Offer, pack, unpack
from aiostorm.transport import NetworkError


class Answering:
    """A connection that answers offers, all at once, and is then lost."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.offers: list[int] = []
        self.answers: list[bytes] = []
        self.answered = False

    def send(self, frame: bytes) -> None:
        offer: Any = unpack(frame)
        self.offers.append(offer.seq)

    def receive(self, timeout_s: float | None) -> bytes:
        if timeout_s is None and len(self.offers) == self.ahead:  # the writer waits
            self.answers, self.answered = [pack(Done(seq)) for seq in self.offers], True
        if self.answers:
            return self.answers.pop(0)
        if self.answered:
            raise NetworkError("lost")
        if timeout_s is None:
            raise AssertionError("it waits for ever: nothing is offered that was not answered")
        raise TimeoutError


class Client:
    """Gives the connections, the next one when one is lost."""

    def __init__(self, connections: list[Answering]) -> None:
        self.connections = connections

    def with_retries(self, work: Callable[[Any], Any]) -> Any:
        while True:
            try:
                return work(self.connections[0])
            except NetworkError:
                del self.connections[0]


def test_a_connection_that_is_lost_after_it_has_answered_all_is_not_waited_for() -> None:
    client: Any = Client([Answering(2), Answering(2), Answering(2)])
    offers = [(Offer(0, "", -1, f"w/0/{at}", 1, b"d", 1), b"x") for at in range(4)]
    assert ChunkWriter(client, ahead=2).write(offers) == 4
    assert len(client.connections) == 1
