"""Event time: the watermarks that a task receives, and those that it sends.

driver.py handles the watermarks of a bolt task's inputs. following.py reads timestamps in the rows that a task emits,
watermark_emitter.py sends watermarks to the downstream tasks, end_of_stream.py the last one of a spout that has
finished. time_messages.py: a task that has lost the watermarks it received requests them again.
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
