"""Event time: the watermarks that a bolt task receives.

driver.py handles the watermarks of a bolt task's inputs, ../bolt_time.py drives it. time_messages.py: a task that has
lost the watermarks it received requests them again. Watermarks are sent by ../emit/watermarks.py, and found in emitted
rows by ../emit/following.py.
"""

from .driver import EventTimeDriver, OpenWindows, TimeTools, WindowOutput
from .time_messages import TIME_MESSAGES, WatermarkRequest

__all__ = [
    "TIME_MESSAGES",
    "EventTimeDriver",
    "OpenWindows",
    "TimeTools",
    "WatermarkRequest",
    "WindowOutput",
]
