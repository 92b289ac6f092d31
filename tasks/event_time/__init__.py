"""How far event time has come: what a task receives, and what it sends on.

driver.py is what a bolt task does about the time that its inputs tell it. following.py reads timestamps in the rows
that a task emits, watermark_emitter.py sends watermarks to the tasks behind it, end_of_stream.py the last one of a
spout that has finished. time_messages.py: a task that has lost what it was sent asks again.
"""

from .driver import EventTimeDriver, PassThroughDriver, TimeTools, WindowDriver
from .end_of_stream import EndOfStream
from .following import Following, TimeReader, follow
from .time_messages import TIME_MESSAGES, WatermarkRequest
from .watermark_emitter import WatermarkEmitter

__all__ = [
    "TIME_MESSAGES",
    "EndOfStream",
    "EventTimeDriver",
    "Following",
    "PassThroughDriver",
    "TimeReader",
    "TimeTools",
    "WatermarkEmitter",
    "WatermarkRequest",
    "WindowDriver",
    "follow",
]
