"""Bugs planted into what is between workers, one at a time: the world of workers finds each within a few seeds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aiostorm.cluster.tasks_here import TasksHere
from aiostorm.testing.simulation.connection import SimConnection
from aiostorm.transport import Exchange, ReceiverCredit, SenderCredit, SendQueue
from aiostorm.transport.exchange.peer_channel import PeerChannel
from aiostorm.transport.exchange.receive_buffer import ReceiveBuffer
from aiostorm.transport.exchange.remote_mailbox import RemoteMailbox
from aiostorm.transport.link.parts import Lane, PartAssembler, PayloadPart
from aiostorm.transport.link.send_queue import Gatherer

from ..workers.world import WorkersResult, run
from .links import (
    a_duplicate_after_a_reconnect_is_delivered,
    a_new_incarnation_gets_the_frames_of_the_last_one,
    an_old_incarnation_is_accepted,
)
from .planting import SEEDS, Plant, first_that_finds, replaced


@contextlib.contextmanager
def credit_is_never_returned() -> Iterator[None]:
    """A receiver sends its limits once."""
    real = ReceiverCredit.accepted

    def accepted(self: ReceiverCredit, weight: int) -> bool:
        real(self, weight)
        return False

    with replaced(ReceiverCredit, "accepted", accepted):
        yield


@contextlib.contextmanager
def credit_of_an_earlier_incarnation_counts() -> Iterator[None]:
    """What was granted to, and sent to, the incarnation before is not forgotten."""
    with replaced(SenderCredit, "restart", lambda self: None):
        yield


@contextlib.contextmanager
def a_remote_mailbox_sends_without_credit() -> Iterator[None]:
    """It does not look."""
    with replaced(SenderCredit, "has_credit", True):
        yield


@contextlib.contextmanager
def a_reader_stops_under_pressure() -> Iterator[None]:
    """A full mailbox stops the reader of the link to its worker (finding 1 of our survey)."""
    real_add, real_receive = ReceiveBuffer.add, SimConnection.receive
    full: dict[Any, list[ReceiveBuffer]] = {}

    def add(self: ReceiveBuffer, segments: Any) -> None:
        real_add(self, segments)
        if self.waiting:
            full.setdefault(asyncio.get_running_loop(), []).append(self)

    async def receive(self: SimConnection) -> bytes:
        while any(receive_buffers.waiting for receive_buffers in full.get(asyncio.get_running_loop(), ())):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return await real_receive(self)

    with replaced(ReceiveBuffer, "add", add), replaced(SimConnection, "receive", receive):
        yield


@contextlib.contextmanager
def control_waits_behind_data() -> Iterator[None]:
    """One queue for both (storm#8892)."""

    def schedule(self: SendQueue, gatherer: Gatherer) -> None:
        self.ready(gatherer)

    with replaced(SendQueue, "schedule", schedule):
        yield


@contextlib.contextmanager
def messages_are_dropped_when_a_peer_restarts() -> Iterator[None]:
    """An INIT waits for an acker whose worker has died, and is not there any more when that comes back."""
    real = PeerChannel.restarted

    def restarted(self: PeerChannel, incarnation: int, send_queue: SendQueue) -> None:
        self.messages.waiting.clear()
        real(self, incarnation, send_queue)

    with replaced(PeerChannel, "restarted", restarted):
        yield


@contextlib.contextmanager
def open_trees_do_not_fail_on_a_death() -> Iterator[None]:
    """They wait for their timeout."""
    with replaced(TasksHere, "worker_died", lambda self, worker: None):
        yield


@contextlib.contextmanager
def a_late_death_report_counts_for_the_next_incarnation() -> Iterator[None]:
    """A report of a worker's death need not name its incarnation."""

    def peer_died(self: Exchange, peer: str, incarnation: int) -> None:
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None:
            peer_channel.died()

    with replaced(Exchange, "peer_died", peer_died):
        yield


@contextlib.contextmanager
def segments_of_an_earlier_incarnation_count_for_the_next() -> Iterator[None]:
    """Ours: the simulation found it. Two workers never agree again on what they have sent each other."""
    with replaced(ReceiveBuffer, "waiting", 0):
        yield


@contextlib.contextmanager
def parked_senders_are_forgotten() -> Iterator[None]:
    """A remote mailbox that has capacity again does not say so."""
    with replaced(RemoteMailbox, "_pull", lambda self: None):
        yield


@contextlib.contextmanager
def lanes_are_mixed_up() -> Iterator[None]:
    """Parts of what is urgent are put behind those of what is not."""
    real = PartAssembler.add

    def add(self: PartAssembler, part: PayloadPart) -> bytes | None:
        return real(self, replace(part, lane=Lane.ORDINARY))

    with replaced(PartAssembler, "add", add):
        yield


PLANTED: dict[str, Plant] = {
    planted.__name__: planted
    for planted in (
        a_duplicate_after_a_reconnect_is_delivered,
        an_old_incarnation_is_accepted,
        credit_is_never_returned,
        credit_of_an_earlier_incarnation_counts,
        a_remote_mailbox_sends_without_credit,
        a_reader_stops_under_pressure,
        control_waits_behind_data,
        messages_are_dropped_when_a_peer_restarts,
        open_trees_do_not_fail_on_a_death,
        a_late_death_report_counts_for_the_next_incarnation,
        a_new_incarnation_gets_the_frames_of_the_last_one,
        segments_of_an_earlier_incarnation_count_for_the_next,
        parked_senders_are_forgotten,
        lanes_are_mixed_up,
    )
}

FIRST_LOOK = {
    # Seeds that found a bug some time ago: the test looks there first. (Any change to the code may move them.)
    "an_old_incarnation_is_accepted": 2,
    "a_new_incarnation_gets_the_frames_of_the_last_one": 3,
    "credit_of_an_earlier_incarnation_counts": 4,
    "messages_are_dropped_when_a_peer_restarts": 3,
    "open_trees_do_not_fail_on_a_death": 14,
    "segments_of_an_earlier_incarnation_count_for_the_next": 45,
    "credit_is_never_returned": 4,
    "a_remote_mailbox_sends_without_credit": 4,
    "a_reader_stops_under_pressure": 34,
    "control_waits_behind_data": 4,
    "parked_senders_are_forgotten": 34,
    "lanes_are_mixed_up": 83,
}


def found_by(planted: Plant, first: int = 0, seeds: int = SEEDS) -> WorkersResult | None:
    return first_that_finds(run, planted, first, seeds)
