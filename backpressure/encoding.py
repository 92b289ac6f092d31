"""Encoding: the messages between monitors, the topology master and the tasks of other workers, encoded.

    READINGS  [task, 4, incarnation, at_s, bolt …, spout …]        each reading an array of its fields
    PACE      [task, 5, epoch, step, change, lease_s, time_us, busy, trim, slack_s, follow_us,
               others_us]
    CLEAR     [task, 6]

1. Received messages are checked before they reach a coordinator or a spout: ProtocolError. No number makes a spout wait
   longer than MAX_WAIT, or for longer than a lease of MOST_LEASE_S.
2. Readings of more than MAX_TASKS tasks are split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..transport.codec import MessageCodec, ProtocolError, Received, pack_value
from .messages import BoltReading, Clear, Pace, PaceChange, Readings, SpoutReading
from .pacer import MOST_SLACK_S
from .sampler import PressureVerdict
from .settings import MOST_LEASE_S
from .throttle import MAX_WAIT, MOST_TRIM

_READINGS: Final = 4
_PACE: Final = 5
_CLEAR: Final = 6

_VERDICTS: Final = (PressureVerdict.NONE, PressureVerdict.BLOCKED, PressureVerdict.RELIEVED)
_CHANGES: Final = (PaceChange.HOLD, PaceChange.SLOW, PaceChange.RELIEVE)

MAX_TASKS: Final = 1000


def _pack(task_id: int, message: object) -> bytes:
    if type(message) is Readings:
        bolts = tuple(
            (
                b.task,
                b.fill,
                b.capacity,
                b.executed,
                b.flagged,
                _VERDICTS.index(b.verdict),
                b.step,
                b.busy,
                b.load,
                b.starved,
                b.blocks,
            )
            for b in message.bolts
        )
        spouts = tuple((s.task, s.emitted, s.wait_us, s.epoch, s.step, s.active) for s in message.spouts)
        return pack_value((task_id, _READINGS, message.incarnation, message.at_s, bolts, spouts))
    if type(message) is Pace:
        m = message
        change = _CHANGES.index(m.change)
        return pack_value(
            (
                task_id,
                _PACE,
                m.epoch,
                m.step,
                change,
                m.lease_s,
                m.time_us,
                m.busy,
                m.trim,
                m.slack_s,
                m.follow_us,
                m.others_us,
            )
        )
    if type(message) is Clear:
        return pack_value((task_id, _CLEAR))
    raise TypeError(f"{message!r} cannot be sent to another worker")


def _unpack(item: Received) -> tuple[int, object]:
    match item:
        case (bool(), *_):  # no number, though an int for Python
            raise ProtocolError(f"not a message about backpressure: {item!r:.100}")
        case (int(task_id), 4, int(incarnation), float(at_s), bolts, spouts) if _are_tuples(bolts, spouts):
            found = tuple(map(_bolt, bolts)), tuple(map(_spout, spouts))
            return task_id, Readings(_count(incarnation), _real(at_s), *found)
        case (int(task_id), 5, *order):
            return task_id, _pace(order)
        case (int(task_id), 6):
            return task_id, Clear()
        case _:
            raise ProtocolError(f"not a message about backpressure: {item!r:.100}")


def _split(message: object) -> Sequence[object]:
    if type(message) is not Readings or len(message.bolts) + len(message.spouts) <= MAX_TASKS:
        return (message,)
    parts = [
        replace(message, bolts=message.bolts[start : start + MAX_TASKS], spouts=())
        for start in range(0, len(message.bolts), MAX_TASKS)
    ]
    parts += [
        replace(message, bolts=(), spouts=message.spouts[start : start + MAX_TASKS])
        for start in range(0, len(message.spouts), MAX_TASKS)
    ]
    return parts


PRESSURE_MESSAGES: Final = MessageCodec(
    _pack, _unpack, _split, types=(Readings, Pace, Clear), kinds=(_READINGS, _PACE, _CLEAR)
)
"""Readings, Pace and Clear."""


def _pace(order: Sequence[Received]) -> Pace:
    match order:
        case (int(epoch), int(step), int(change), float(lease_s), int(time_us), float(busy), float(bend),
              float(slack_s), int(follow_us), int(others_us)):  # fmt: skip
            if type(change) is not int or not 0 <= change < len(_CHANGES):
                raise ProtocolError(f"not a change of pace: {change}")
            return Pace(
                _count(epoch),
                _count(step),
                _CHANGES[change],
                _real(lease_s, 0, MOST_LEASE_S),
                _count(time_us, MAX_WAIT),
                _real(busy, 0, 1),
                _real(bend, -MOST_TRIM, MOST_TRIM),
                _real(slack_s, 0, MOST_SLACK_S),
                _count(follow_us, MAX_WAIT),
                _count(others_us, MAX_WAIT),
            )
        case _:
            raise ProtocolError(f"not an order: {order!r:.200}")


def _bolt(found: Received) -> BoltReading:
    match found:
        case (int(task), int(fill), int(capacity), int(executed), bool(flagged), int(verdict), int(step), float(busy),
              float(load), bool(starved), int(blocks)):  # fmt: skip
            if type(verdict) is not int or not 0 <= verdict < len(_VERDICTS):
                raise ProtocolError(f"not a verdict: {verdict}")
            counts = _count(task), _count(fill), _count(capacity), _count(executed)
            shares = _real(busy, 0, 1), _real(load, 0, 1)
            return BoltReading(*counts, flagged, _VERDICTS[verdict], _count(step), *shares, starved, _count(blocks))
        case _:
            raise ProtocolError(f"not a reading of a bolt: {found!r:.100}")


def _spout(found: Received) -> SpoutReading:
    match found:
        case (int(task), int(emitted), int(wait_us), int(epoch), int(step), bool(active)):
            counts = _count(task), _count(emitted), _count(wait_us, MAX_WAIT), _count(epoch), _count(step)
            return SpoutReading(*counts, active)
        case _:
            raise ProtocolError(f"not a reading of a spout: {found!r:.100}")


def _are_tuples(*values: object) -> bool:
    return all(isinstance(value, tuple) for value in values)


def _count(number: int, most: int = 2**63 - 1) -> int:
    if type(number) is not int or not 0 <= number <= most:
        raise ProtocolError(f"not a count up to {most}: {number!r:.50}")
    return number


def _real(number: float, least: float = -1e18, most: float = 1e18) -> float:
    if not math.isfinite(number) or not least <= number <= most:
        raise ProtocolError(f"not a number from {least:g} to {most:g}: {number!r:.50}")
    return number
