"""Decides which spouts must slow down, from marks, samples and waits. Pure; the actors that run it are in tasks.

mailboxes ─ sampler ─► readings ─► coordinator ─► orders ─► spout pace (throttle, pacer) ─► fewer tuples a second
"""

from .coordinator import Coordinator, Order
from .encoding import PRESSURE_MESSAGES
from .graph import Graph, sources_of
from .mailbox_limit import MailboxLimit
from .messages import BoltReading, Clear, Pace, PaceChange, Readings, SpoutReading
from .portion import Portion
from .sampler import Level, PressureVerdict, Sample, Sampler, level_of
from .service import ServiceTime
from .settings import Settings
from .spout_pace import SpoutPace
from .throttle import Throttle
from .view import (
    NORMAL,
    THROTTLED,
    Backpressure,
    ComponentPressure,
    PressureEvent,
    SpoutPacing,
    TaskPressure,
)

__all__ = [
    "NORMAL",
    "PRESSURE_MESSAGES",
    "THROTTLED",
    "Backpressure",
    "BoltReading",
    "Clear",
    "ComponentPressure",
    "Coordinator",
    "Graph",
    "Level",
    "MailboxLimit",
    "Order",
    "Pace",
    "PaceChange",
    "Portion",
    "PressureEvent",
    "PressureVerdict",
    "Readings",
    "Sample",
    "Sampler",
    "ServiceTime",
    "Settings",
    "SpoutPace",
    "SpoutPacing",
    "SpoutReading",
    "TaskPressure",
    "Throttle",
    "level_of",
    "sources_of",
]
