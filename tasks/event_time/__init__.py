"""How far event time has come: what a task receives, and what it sends on.

time_side.py is what a bolt task does about the time that its inputs tell it. following.py reads timestamps in the rows
that a task emits, telling.py sends watermarks to the tasks behind it, ending.py the last one of a spout that has
finished. time_messages.py: a task that has lost what it was sent asks again.
"""

from .ending import Ending
from .following import Following, TimeReader, follow
from .telling import Telling
from .time_messages import TIME_MESSAGES, AskTime
from .time_side import PassingSide, TimeSide, TimeTools, WindowSide

__all__ = [
    "TIME_MESSAGES",
    "AskTime",
    "Ending",
    "Following",
    "PassingSide",
    "Telling",
    "TimeReader",
    "TimeSide",
    "TimeTools",
    "WindowSide",
    "follow",
]
